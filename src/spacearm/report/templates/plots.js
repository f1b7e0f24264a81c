// Draws every .plot from the JSON beside it, in the colours of the page, on screen and on paper.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paper = matchMedia("print");
  const plots = [...document.querySelectorAll(".plot")];
  const ink = () => (dark.matches && !paper.matches ? "#e4e8ec" : "#1c2127");
  for (const plot of plots) {
    const figure = JSON.parse(document.getElementById(plot.dataset.json).textContent);
    figure.layout.font = { ...(figure.layout.font || {}), color: ink() };
    delete figure.layout.width;
    Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displaylogo: false });
  }
  const recolour = () => plots.forEach((plot) => Plotly.relayout(plot, { "font.color": ink() }));
  dark.addEventListener("change", recolour);
  paper.addEventListener("change", recolour);
})();
