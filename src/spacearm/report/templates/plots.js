// Draws every .plot from the JSON beside it when it comes into view, in the colours of the page, on screen and on paper.
addEventListener("DOMContentLoaded", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paper = matchMedia("print");
  const plots = [...document.querySelectorAll(".plot")];
  const ink = () => (dark.matches && !paper.matches ? "#e4e8ec" : "#1c2127");
  if (typeof Plotly === "undefined") {
    const script = document.querySelector("script[src]").getAttribute("src");
    for (const plot of plots) plot.textContent = `This figure needs ${script}, which is not there. Copy the folder that holds it too.`;
    return;
  }
  const draw = (plot) => {
    if (plot.dataset.drawn) return;
    plot.dataset.drawn = "yes";
    const figure = JSON.parse(document.getElementById(plot.dataset.json).textContent);
    const layout = figure.layout;
    const small = plot.classList.contains("small");
    layout.font = { ...(layout.font || {}), color: ink() };
    delete layout.width;
    if (small) {
      Object.assign(layout, { height: 260, showlegend: false, title: "", margin: { l: 48, r: 12, t: 24, b: 40 } });
      layout.font.size = 10;
      if (layout.xaxis2) { // of several panels the first
        figure.data = figure.data.filter((trace) => (trace.xaxis || "x") === "x");
        for (const key of Object.keys(layout)) if (/^[xy]axis\d/.test(key)) delete layout[key];
        layout.xaxis.domain = layout.yaxis.domain = [0, 1];
        layout.annotations = layout.shapes = [];
      }
      for (const note of layout.annotations || []) note.font = { ...note.font, size: 10 };
    } else if (Object.keys(layout).some((key) => /^xaxis\d/.test(key) && layout[key].domain && layout[key].domain[0] > 0)) {
      plot.style.minWidth = "44rem"; // panels side by side: scrolled on a narrow screen, not squeezed
    }
    const config = { responsive: true, displayModeBar: false, staticPlot: small };
    Plotly.newPlot(plot, figure.data, layout, config).then(() => fit(plot, layout.height));
  };
  // A table is as high as it is on the narrowest sheet of paper: on a screen it ends where its last row does.
  const fit = (plot, height) => {
    const cells = [...plot.querySelectorAll(".table .cell-rect")];
    if (!cells.length || printing) return;
    plot.dataset.height = height;
    const top = plot.getBoundingClientRect().top, end = Math.max(...cells.map((cell) => cell.getBoundingClientRect().bottom));
    Plotly.relayout(plot, { height: Math.min(height, Math.ceil(end - top) + 12) });
  };
  const tables = () => plots.filter((plot) => plot.dataset.height);
  const unfit = () => Promise.all(tables().map((plot) => Plotly.relayout(plot, { height: +plot.dataset.height })));
  let printing = false;
  addEventListener("resize", () => printing || unfit().then(() => tables().forEach((plot) => fit(plot, +plot.dataset.height))));
  const seen = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
    { rootMargin: "600px" },
  );
  for (const plot of plots) {
    seen.observe(plot);
    if (plot.dataset.link) plot.addEventListener("click", () => (location.href = plot.dataset.link));
  }
  for (const button of document.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", () => {
      const plot = button.closest("figure").querySelector(".plot");
      Plotly.downloadImage(plot, { format: button.dataset.save, filename: plot.dataset.name, width: plot.clientWidth, height: plot.clientHeight, scale: 2 });
    });
  }
  const recolour = () => plots.filter((plot) => plot.dataset.drawn).forEach((plot) => Plotly.relayout(plot, { "font.color": ink() }));
  dark.addEventListener("change", recolour);
  addEventListener("beforeprint", () => {
    printing = true;
    unfit();
    document.querySelectorAll("details").forEach((part) => (part.open = true));
    plots.forEach(draw);
    recolour();
  });
  addEventListener("afterprint", () => {
    printing = false;
    recolour();
    tables().forEach((plot) => fit(plot, +plot.dataset.height));
  });
});
