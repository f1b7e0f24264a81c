// <spacearm-scene>: draws the JSON in it with WebGL 2. No library, no network. Metres, seconds, z up.
(() => {
  "use strict";
  const STYLE = `
:host { display: block; position: relative; min-height: 260px; height: 480px; color-scheme: light dark;
  --ground: #f3f5f7; --panel: #ffffffe6; --text: #1c2127; --soft: #5b6570; --rule: #d0d6dd; --accent: #0b62a8; }
:host(.dark) { --ground: #14181d; --panel: #1c2229e6; --text: #e4e8ec; --soft: #9aa5b1; --rule: #3a444f; --accent: #7fb8ec; }
* { box-sizing: border-box; }
.all { position: absolute; inset: 0; display: flex; flex-direction: column; background: var(--ground); color: var(--text);
  font: 13px/1.35 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", Helvetica, Arial, sans-serif; }
.view { position: relative; flex: 1; min-height: 0; overflow: hidden; }
canvas { position: absolute; inset: 0; width: 100%; height: 100%; display: block; }
canvas.gl { touch-action: none; cursor: grab; outline-offset: -2px; }
canvas.gl:active { cursor: grabbing; }
canvas.ink { pointer-events: none; }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 8px; padding: 6px 8px; border-top: 1px solid var(--rule); }
.bar.still .moving { display: none; }
button, select { font: inherit; color: var(--text); background: transparent; border: 1px solid var(--rule); border-radius: 5px;
  padding: 2px 7px; min-height: 26px; cursor: pointer; }
select option { color: #1c2127; background: #fff; }
button:hover, select:hover { border-color: var(--accent); }
button:focus-visible, select:focus-visible, input:focus-visible, canvas:focus-visible { outline: 2px solid var(--accent); }
button svg { width: 14px; height: 14px; display: block; fill: currentColor; }
.track { position: relative; flex: 1 1 180px; min-width: 120px; height: 26px; }
.track input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; accent-color: var(--accent); background: none; cursor: pointer; }
.marks { position: absolute; left: 8px; right: 8px; top: 0; height: 7px; }
.marks i { position: absolute; top: 0; width: 3px; height: 7px; margin-left: -1px; border-radius: 1px; background: var(--soft); cursor: pointer; }
.marks i.change { background: #d55e00; } .marks i.phase { background: var(--accent); }
.time { font-variant-numeric: tabular-nums; min-width: 7.5em; text-align: right; }
.said { position: absolute; left: 10px; top: 8px; max-width: 70%; pointer-events: none; }
.said b { font-weight: 600; } .said span { color: var(--soft); display: block; }
.side { position: absolute; right: 8px; top: 8px; display: flex; flex-direction: column; align-items: flex-end; gap: 6px; max-height: calc(100% - 16px); }
.legend { background: var(--panel); border: 1px solid var(--rule); border-radius: 7px; padding: 6px 10px; overflow: auto; }
.legend[hidden] { display: none; }
.legend label { display: flex; align-items: center; gap: 6px; white-space: nowrap; padding: 1px 0; cursor: pointer; }
.legend input { margin: 0; accent-color: var(--accent); }
.legend .swatch { width: 11px; height: 11px; border-radius: 3px; flex: none; }
.legend hr { border: 0; border-top: 1px solid var(--rule); margin: 5px 0; }
.drives { position: absolute; left: 8px; top: 34px; max-height: calc(100% - 76px); overflow: auto; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 7px; padding: 4px 10px; }
.drives[hidden] { display: none; }
.drives summary { cursor: pointer; }
.drives label { display: grid; grid-template-columns: minmax(4em, auto) 110px 5.5em; align-items: center; gap: 6px; white-space: nowrap; }
.drives input { accent-color: var(--accent); margin: 0; }
.drives output { text-align: right; font-variant-numeric: tabular-nums; color: var(--soft); }
.fault { position: absolute; inset: 0; display: grid; place-items: center; text-align: center; padding: 1rem; color: var(--soft); }
@media print { .bar, .side { display: none; } }`;
  const ICONS = {
    play: "M3 1v12l9-6z", pause: "M2 1h4v12H2zM8 1h4v12H8z", reset: "M7 2a5 5 0 1 0 4.6 3l-1.5.7A3.4 3.4 0 1 1 7 3.6V6l4-3.2L7 0z",
    full: "M1 1h5v2H3v3H1zM8 1h5v5h-2V3H8zM1 8h2v3h3v2H1zM11 8h2v5H8v-2h3z", legend: "M1 2h12v2H1zM1 6h12v2H1zM1 10h12v2H1z",
  };
  const TOGGLES = [["bodies", "Bodies", 1], ["inertia", "Equivalent inertia", 0], ["ghost", "Start", 1], ["path", "Path of the hand", 1],
    ["loads", "Loads and thrusters", 1], ["centre", "Mass centre", 1], ["axes", "Joint axes", 0], ["frames", "Frames", 0],
    ["labels", "Names", 0], ["grid", "Grid", 1]];

  // -- vectors, rotations, matrices (column by column) ----------------------------------------------------------------
  const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
  const times = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const size = (a) => Math.hypot(a[0], a[1], a[2]);
  const unit = (a) => times(a, 1 / (size(a) || 1));
  const turned = (q, v) => { // q = x y z w
    const t = times(cross(q, v), 2);
    return add(add(v, t, q[3]), cross(q, t));
  };
  const product = (a, b) => [
    a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1], a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0],
    a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3], a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]];
  const toward = (d) => { // turns z into d
    const [x, y, z] = unit(d), w = 1 + z;
    if (w < 1e-9) return [1, 0, 0, 0];
    const s = 1 / Math.hypot(x, y, w);
    return [-y * s, x * s, 0, w * s];
  };
  const matrix = (p, q, s = [1, 1, 1]) => {
    const x = turned(q, [s[0], 0, 0]), y = turned(q, [0, s[1], 0]), z = turned(q, [0, 0, s[2]]);
    return new Float32Array([...x, 0, ...y, 0, ...z, 0, ...p, 1]);
  };
  const times4 = (a, b) => {
    const c = new Float32Array(16);
    for (let j = 0; j < 4; j++) for (let i = 0; i < 4; i++) for (let k = 0; k < 4; k++) c[4 * j + i] += a[4 * k + i] * b[4 * j + k];
    return c;
  };
  const perspective = (f, aspect, near, far) => new Float32Array(
    [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (near + far) / (near - far), -1, 0, 0, (2 * near * far) / (near - far), 0]);
  const look = (eye, x, y, z) => new Float32Array(
    [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]);
  const nice = (x) => { const p = 10 ** Math.floor(Math.log10(x)); return p * (x / p < 2 ? 1 : x / p < 5 ? 2 : 5); };
  const metres = (x) => (x >= 1000 ? `${x / 1000} km` : x >= 1 ? `${x} m` : x >= 0.01 ? `${+(100 * x).toPrecision(3)} cm` : `${+(1000 * x).toPrecision(3)} mm`);
  const rgba = (text) => [1, 3, 5, 7].map((i) => (text.length > i ? parseInt(text.slice(i, i + 2), 16) : 255));
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const floats = (text) => new Float32Array(bytes(text));

  // -- shapes: triangles with normals and colours ---------------------------------------------------------------------
  class Solid {
    constructor() { this.at = []; this.normal = []; this.colour = []; }
    face(p, n, c) { for (let i = 0; i < p.length; i++) { this.at.push(...p[i]); this.normal.push(...(n.length === p.length ? n[i] : n[0])); this.colour.push(...c); } }
    quad(a, b, c, d, n, colour) { // n: one normal, or four
      const m = n.length === 4 ? n : [n[0], n[0], n[0], n[0]];
      this.face([a, b, c], [m[0], m[1], m[2]], colour);
      this.face([a, c, d], [m[0], m[2], m[3]], colour);
    }
    box(e, place, c) {
      const h = times(e, 0.5);
      for (let k = 0; k < 3; k++) for (const s of [-1, 1]) {
        const n = [0, 0, 0], u = [0, 0, 0], v = [0, 0, 0];
        n[k] = s; u[(k + 1) % 3] = h[(k + 1) % 3]; v[(k + 2) % 3] = s * h[(k + 2) % 3];
        const m = times(n, h[k]);
        this.quad(...[[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([i, j]) => place(add(add(m, u, i), v, j))), [place(n, 1)], c);
      }
    }
    turnedUp(rows, place, c, round = 32) { // rows: radius, height, normal's radius and height; from below
      for (let r = 0; r + 1 < rows.length; r++) for (let k = 0; k < round; k++) {
        const corner = ([radius, z, nr, nz], i) => {
          const a = (2 * Math.PI * i) / round, x = Math.cos(a), y = Math.sin(a);
          return [place([radius * x, radius * y, z]), place(unit([nr * x, nr * y, nz]), 1)];
        };
        const four = [corner(rows[r], k), corner(rows[r], k + 1), corner(rows[r + 1], k + 1), corner(rows[r + 1], k)];
        if (rows[r][0] || rows[r + 1][0]) this.quad(...four.map((f) => f[0]), four.map((f) => f[1]), c);
      }
    }
    cylinder([r, l], place, c) {
      const h = l / 2, b = Math.min(r, h) * 0.12; // a bevel catches light
      this.turnedUp([[0, -h, 0, -1], [r - b, -h, 0, -1]], place, c);
      this.turnedUp([[r - b, -h, 0.7, -0.7], [r, -h + b, 0.7, -0.7]], place, c);
      this.turnedUp([[r, -h + b, 1, 0], [r, h - b, 1, 0]], place, c);
      this.turnedUp([[r, h - b, 0.7, 0.7], [r - b, h, 0.7, 0.7]], place, c);
      this.turnedUp([[r - b, h, 0, 1], [0, h, 0, 1]], place, c);
    }
    capsule([r, l], place, c, n = 8) {
      const rows = [];
      for (const s of [-1, 1]) for (let i = 0; i <= n; i++) {
        const a = (Math.PI / 2) * (s < 0 ? i / n - 1 : i / n);
        rows.push([r * Math.cos(a), r * Math.sin(a) + (s * l) / 2, Math.cos(a), Math.sin(a)]);
      }
      this.turnedUp(rows, place, c, 24);
    }
    sphere([r], place, c) { this.capsule([r, 0], place, c, 10); }
    ellipsoid(h, place, c) {
      this.capsule([1, 0], (p, n) => place([0, 1, 2].map((i) => (n ? p[i] / (h[i] || 1e-9) : p[i] * h[i])), n), c, 10);
    }
    cone([r, l], place, c) { // tip at the origin, opening along z
      this.turnedUp([[0, 0, l, -r], [r, l, l, -r]], place, c);
      this.turnedUp([[r, l, 0, 1], [0, l, 0, 1]], place, c);
    }
    mesh(scale, place, c, data) {
      const at = (i) => place([0, 1, 2].map((k) => data.at[3 * i + k] * scale[k]));
      const flip = scale[0] * scale[1] * scale[2] < 0;
      const n = new Float32Array(data.at.length), p = [];
      for (let i = 0; i < data.at.length / 3; i++) p.push(at(i));
      const faces = [];
      for (let f = 0; f < data.faces.length; f += 3) {
        const [i, j, k] = flip ? [data.faces[f], data.faces[f + 2], data.faces[f + 1]] : data.faces.subarray(f, f + 3);
        const m = cross(add(p[j], p[i], -1), add(p[k], p[i], -1));
        faces.push([i, j, k, m]);
        for (const v of [i, j, k]) for (let d = 0; d < 3; d++) n[3 * v + d] += m[d];
      }
      for (const [i, j, k, m] of faces) { // smooth where faces meet at a small angle only
        const own = unit(m);
        this.face([p[i], p[j], p[k]], [i, j, k].map((v) => {
          const s = unit(n.subarray(3 * v, 3 * v + 3));
          return dot(s, own) > 0.8 ? s : own;
        }), c);
      }
    }
    shape(s, c, meshes) {
      const q = s.at.slice(3), p = s.at.slice(0, 3);
      const place = (v, n) => (n ? unit(turned(q, v)) : add(turned(q, v), p));
      this[s.kind](s.size, place, c, s.kind === "mesh" ? meshes[s.mesh] : undefined);
    }
  }

  // -- WebGL ----------------------------------------------------------------------------------------------------------
  const BODY = [`#version 300 es
    layout(location=0) in vec3 at; layout(location=1) in vec3 normal; layout(location=2) in vec4 colour;
    uniform mat4 camera, model; out vec3 n, w; out vec4 c;
    void main() { vec4 p = model * vec4(at, 1.0); w = p.xyz; n = mat3(model) * normal; c = colour; gl_Position = camera * p; }`,
  `#version 300 es
    precision highp float; in vec3 n, w; in vec4 c; uniform vec3 eye, tint, key; uniform float opacity, dark, glow; out vec4 ink;
    void main() {
      vec3 m = normalize(n), v = normalize(eye - w); if (dot(m, v) < 0.0) m = -m;
      vec3 base = pow(c.rgb, vec3(2.2)) * (1.0 - glow) + tint * glow;
      vec3 fill = normalize(cross(key, vec3(0.0, 0.0, 1.0)) - 0.35 * key), half_ = normalize(key + v);
      float sky = 0.5 + 0.5 * m.z;
      vec3 light = mix(vec3(0.20, 0.21, 0.24), vec3(0.46, 0.48, 0.52), sky) * (1.0 - 0.18 * dark);
      light += vec3(0.72, 0.70, 0.66) * max(dot(m, key), 0.0) + vec3(0.16, 0.18, 0.22) * max(dot(m, fill), 0.0);
      vec3 lit = base * light + 0.10 * pow(max(dot(m, half_), 0.0), 40.0) + 0.05 * pow(1.0 - max(dot(m, v), 0.0), 3.0);
      lit = mix(lit, base, glow); ink = vec4(pow(lit, vec3(1.0 / 2.2)), c.a * opacity); ink.rgb *= ink.a;
    }`];
  const LINE = [`#version 300 es
    layout(location=0) in vec3 at; layout(location=1) in vec3 next; layout(location=2) in vec2 side; layout(location=3) in vec4 colour;
    uniform mat4 camera; uniform vec2 screen; uniform float width; out vec4 c;
    void main() {
      vec4 a = camera * vec4(at, 1.0), b = camera * vec4(next, 1.0);
      float near = 1e-4; if (a.w < near) a = mix(a, b, (near - a.w) / (b.w - a.w)); if (b.w < near) b = mix(b, a, (near - b.w) / (a.w - b.w));
      vec2 d = (b.xy / b.w - a.xy / a.w) * screen; d = length(d) > 1e-6 ? normalize(d) : vec2(1.0, 0.0);
      vec4 p = side.x < 0.5 ? a : b; p.xy += (vec2(-d.y, d.x) * side.y + d * (side.x - 0.5) * 0.6) * width / screen * p.w; p.z -= 1e-5 * p.w; c = colour; gl_Position = p;
    }`,
  `#version 300 es
    precision highp float; in vec4 c; uniform float opacity; out vec4 ink; void main() { ink = vec4(c.rgb, 1.0) * c.a * opacity; }`];
  const GRID = [`#version 300 es
    layout(location=0) in vec3 at; uniform mat4 camera; uniform vec3 middle; uniform float reach; out vec2 p;
    void main() { vec3 w = vec3(middle.xy + at.xy * reach, middle.z); p = w.xy; gl_Position = camera * vec4(w, 1.0); }`,
  `#version 300 es
    precision highp float; in vec2 p; uniform vec3 middle; uniform float reach, cell, strength; uniform vec3 tint; out vec4 ink;
    float lines(float s) { vec2 q = p / s, w = fwidth(q) * 1.2, d = abs(fract(q - 0.5) - 0.5) / w; vec2 k = (1.0 - min(d, 1.0)) * clamp(0.7 / (w * 3.0), 0.0, 1.0); return max(k.x, k.y); }
    void main() {
      float fade = 1.0 - smoothstep(0.35, 1.0, length(p - middle.xy) / reach);
      float a = fade * strength * max(0.45 * lines(cell), lines(cell * 5.0)); ink = vec4(tint, 1.0) * a;
    }`];

  class Painter {
    constructor(canvas) {
      const gl = (this.gl = canvas.getContext("webgl2", { antialias: true, premultipliedAlpha: true, alpha: true, preserveDrawingBuffer: true }));
      if (!gl) throw new Error("This browser has no WebGL 2, which the scene is drawn with.");
      this.programs = Object.fromEntries(Object.entries({ body: BODY, line: LINE, grid: GRID }).map(([name, pair]) => [name, this.program(...pair)]));
      this.plane = this.buffer([[0, 3, gl.FLOAT, new Float32Array([-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, -1, 0, 1, 1, 0, -1, 1, 0])]], 6);
      gl.enable(gl.DEPTH_TEST); gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA); gl.depthFunc(gl.LEQUAL);
    }
    program(vertex, fragment) {
      const gl = this.gl, made = gl.createProgram();
      for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(made, shader);
        if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
      }
      gl.linkProgram(made);
      const at = {};
      for (let i = 0; i < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); i++) {
        const { name, type } = gl.getActiveUniform(made, i), place = gl.getUniformLocation(made, name);
        at[name] = type === gl.FLOAT_MAT4 ? (v) => gl.uniformMatrix4fv(place, false, v) : type === gl.FLOAT_VEC3 ? (v) => gl.uniform3fv(place, v)
          : type === gl.FLOAT_VEC2 ? (v) => gl.uniform2fv(place, v) : (v) => gl.uniform1f(place, v);
      }
      return (values) => { gl.useProgram(made); for (const key in values) if (at[key]) at[key](values[key]); };
    }
    buffer(columns, count) {
      const gl = this.gl, array = gl.createVertexArray();
      gl.bindVertexArray(array);
      for (const [place, width, type, data] of columns) {
        gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer()); gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
        gl.enableVertexAttribArray(place); gl.vertexAttribPointer(place, width, type, type === gl.UNSIGNED_BYTE, 0, 0);
      }
      gl.bindVertexArray(null);
      return { array, count };
    }
    solid(s) {
      if (!s.at.length) return null;
      const F = this.gl.FLOAT;
      return this.buffer([[0, 3, F, new Float32Array(s.at)], [1, 3, F, new Float32Array(s.normal)], [2, 4, this.gl.UNSIGNED_BYTE, new Uint8Array(s.colour)]], s.at.length / 3);
    }
    lines(segments) { // [from, to, rgba]
      if (!segments.length) return null;
      const at = [], next = [], side = [], colour = [];
      for (const [a, b, c] of segments) for (const [k, s] of [[0, -1], [0, 1], [1, 1], [0, -1], [1, 1], [1, -1]]) { at.push(...a); next.push(...b); side.push(k, s); colour.push(...c); }
      const F = this.gl.FLOAT;
      return this.buffer([[0, 3, F, new Float32Array(at)], [1, 3, F, new Float32Array(next)], [2, 2, F, new Float32Array(side)], [3, 4, this.gl.UNSIGNED_BYTE, new Uint8Array(colour)]], 6 * segments.length);
    }
    draw(thing) { if (thing) { this.gl.bindVertexArray(thing.array); this.gl.drawArrays(this.gl.TRIANGLES, 0, thing.count); } }
    drop(thing) { if (thing) this.gl.deleteVertexArray(thing.array); }
  }

  // -- what moves -----------------------------------------------------------------------------------------------------
  class Actor { // a system for as long as its robot stays the same
    constructor(data, scene) {
      Object.assign(this, data);
      this.times = floats(data.times); this.poses = floats(data.poses); this.count = data.bodies.length; this.steps = this.times.length;
      for (const part of data.pushes) if (typeof part.values === "string") part.values = floats(part.values);
      this.loads = data.pushes.filter((p) => p.kind !== "thruster"); this.thrusters = data.pushes.filter((p) => p.kind === "thruster");
      this.mass = data.bodies.reduce((sum, b) => sum + b.mass, 0);
      this.first = this.times[0]; this.last = this.times[this.steps - 1];
      this.balls = data.bodies.map((b) => { // that hold a body's shapes
        let low = b.shapes.length ? [Infinity, Infinity, Infinity] : [0, 0, 0], high = b.shapes.length ? [-Infinity, -Infinity, -Infinity] : [0, 0, 0];
        for (const s of b.shapes) { const r = scene.extent(s); low = low.map((x, d) => Math.min(x, s.at[d] - r)); high = high.map((x, d) => Math.max(x, s.at[d] + r)); }
        const c = times(add(low, high), 0.5);
        return { c, r: Math.max(0, ...b.shapes.map((s) => size(add(s.at, c, -1)) + scene.extent(s))) };
      });
    }
    move(values) { // a robot that stands: every body from its parent, by joint positions in rad and m
      this.hinges.forEach((h, i) => {
        const from = this.pose(h.parent, [0, 0]), turn = h.kind === "revolute" ? values[i] : 0, slide = h.kind === "revolute" ? 0 : values[i];
        const q0 = product(from.q, h.at.slice(3)), s = Math.sin(turn / 2);
        const p = add(add(from.p, turned(from.q, h.at.slice(0, 3))), turned(q0, h.axis), slide);
        const q = product(q0, [h.axis[0] * s, h.axis[1] * s, h.axis[2] * s, Math.cos(turn / 2)]);
        this.poses.set([...p, ...q], 7 * h.body);
      });
    }
    place(t) { // step and share of the next
      const T = this.times;
      let low = 0, high = this.steps - 1;
      if (t <= T[0] || !high) return [0, 0];
      if (t >= T[high]) return [high, 0];
      while (high - low > 1) { const mid = (low + high) >> 1; if (T[mid] <= t) low = mid; else high = mid; }
      return [low, T[high] > T[low] ? (t - T[low]) / (T[high] - T[low]) : 0];
    }
    pose(body, [k, share]) {
      const P = this.poses, i = 7 * (k * this.count + body);
      let p = [P[i], P[i + 1], P[i + 2]], q = [P[i + 3], P[i + 4], P[i + 5], P[i + 6]];
      if (share) {
        const j = i + 7 * this.count, r = [P[j + 3], P[j + 4], P[j + 5], P[j + 6]];
        const s = q[0] * r[0] + q[1] * r[1] + q[2] * r[2] + q[3] * r[3] < 0 ? -share : share;
        p = p.map((x, d) => x + share * (P[j + d] - x));
        q = q.map((x, d) => (1 - share) * x + s * r[d]);
        const l = Math.hypot(...q); q = q.map((x) => x / l);
      }
      return { p, q };
    }
    value(part, [k, share], width) {
      const v = part.values;
      return Array.from({ length: width }, (_, d) => { const a = v[k * width + d]; return share ? a + share * (v[(k + 1) * width + d] - a) : a; });
    }
    centre(at) {
      let sum = [0, 0, 0];
      this.bodies.forEach((b, i) => { const { p, q } = this.pose(i, at); sum = add(sum, add(p, turned(q, b.com)), b.mass); });
      return times(sum, 1 / (this.mass || 1));
    }
  }

  // -- the element ----------------------------------------------------------------------------------------------------
  class SceneElement extends HTMLElement {
    connectedCallback() {
      if (this.shadowRoot) return;
      const begin = () => { const source = this.querySelector("script"); if (source) this.open(JSON.parse(source.textContent)); };
      document.readyState === "loading" ? addEventListener("DOMContentLoaded", begin) : begin();
    }
    open(data) {
      this.all = data.scenes;
      const root = this.attachShadow({ mode: "open" });
      const icon = (name) => `<svg viewBox="0 0 14 14" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;
      root.innerHTML = `<style>${STYLE}</style><div class="all"><div class="view">
        <canvas class="gl" tabindex="0" role="img" aria-label="3-D scene; drag to turn, right drag to move, wheel to zoom"></canvas><canvas class="ink"></canvas>
        <div class="said"><b></b><span></span></div><details class="drives" open hidden></details>
        <div class="side"><button class="legends" title="Legend" aria-label="Legend" aria-expanded="false">${icon("legend")}</button><div class="legend" hidden></div></div></div>
        <div class="bar"><select class="which" title="Which run" aria-label="Which run"></select>
        <button class="play moving" title="Play or pause (space)" aria-label="Play or pause">${icon("play")}</button>
        <div class="track moving"><input type="range" min="0" max="1" step="any" value="0" aria-label="Time"><div class="marks"></div></div>
        <span class="time moving"></span>
        <select class="speed moving" title="Speed" aria-label="Speed"></select><select class="follow" title="What the camera follows" aria-label="What the camera follows"></select>
        <button class="reset" title="Reset the camera (R)" aria-label="Reset the camera">${icon("reset")}</button>
        <button class="full" title="Full screen (F)" aria-label="Full screen">${icon("full")}</button></div></div>`;
      this.$ = (selector) => root.querySelector(selector);
      this.icon = icon;
      this.shown = Object.fromEntries(TOGGLES.map(([key, , on]) => [key, !!on]));
      try { this.painter = new Painter(this.$("canvas.gl")); } catch (error) {
        this.$(".view").insertAdjacentHTML("beforeend", '<div class="fault"></div>'); this.$(".fault").textContent = error.message; return;
      }
      const which = this.$(".which");
      which.innerHTML = ""; this.all.forEach((s, i) => which.add(new Option(s.name, i)));
      which.hidden = this.all.length < 2;
      which.onchange = () => this.load(+which.value);
      this.listen();
      this.load(0);
      new ResizeObserver(() => { if (!this.touched) this.reset(); this.paint(); }).observe(this.$(".view"));
      const dark = matchMedia("(prefers-color-scheme: dark)"), colour = () => { this.classList.toggle("dark", dark.matches); this.later(); };
      dark.addEventListener("change", colour); colour();
    }
    extent(s) {
      if (s.kind === "mesh") return this.meshes[s.mesh].radius * Math.max(...s.size.map(Math.abs));
      return s.kind === "box" ? size(s.size) / 2 : s.kind === "cylinder" ? Math.hypot(s.size[0], s.size[1] / 2) : s.kind === "capsule" ? s.size[0] + s.size[1] / 2 : Math.max(...s.size);
    }
    load(index) {
      const data = (this.data = this.all[index]), paint = this.painter;
      this.stop();
      this.meshes = data.meshes.map((m) => {
        const raw = new Uint16Array(bytes(m.vertices)), at = new Float32Array(raw.length), many = raw.length / 3 > 65535;
        let radius = 0;
        for (let i = 0; i < raw.length; i++) at[i] = m.low[i % 3] + (raw[i] / 65535) * (m.high[i % 3] - m.low[i % 3]);
        for (let i = 0; i < at.length; i += 3) radius = Math.max(radius, Math.hypot(at[i], at[i + 1], at[i + 2]));
        return { at, faces: new (many ? Uint32Array : Uint16Array)(bytes(m.faces)), radius };
      });
      this.actors = data.actors.map((a) => new Actor(a, this));
      this.start = Math.min(...this.actors.map((a) => a.first)); this.end = Math.max(...this.actors.map((a) => a.last));
      this.time = this.start;
      for (const actor of this.actors) {
        actor.next = this.actors.some((a) => a !== actor && a.first >= actor.last && actor.last < this.end);
        actor.solids = actor.bodies.map((body) => {
          const s = new Solid();
          for (const each of body.shapes) s.shape(each, rgba(each.colour), this.meshes);
          return paint.solid(s);
        });
        actor.boxes = actor.bodies.map((body) => {
          const s = new Solid();
          if (body.box) s.shape(body.box, [...rgba(data.systems[body.system].colour).slice(0, 3), 255], this.meshes);
          return paint.solid(s);
        });
      }
      const arrow = new Solid(), plume = new Solid(), ball = new Solid(), here = (v, n) => v;
      arrow.turnedUp([[0, 0, 0, -1], [0.035, 0, 0, -1]], here, [255, 255, 255, 255]);
      arrow.turnedUp([[0.035, 0, 1, 0], [0.035, 0.75, 1, 0]], here, [255, 255, 255, 255]);
      arrow.turnedUp([[0.035, 0.75, 0, -1], [0.1, 0.75, 0, -1]], here, [255, 255, 255, 255]);
      arrow.turnedUp([[0.1, 0.75, 0.9, 0.36], [0, 1, 0.9, 0.36]], here, [255, 255, 255, 255]);
      for (let i = 0; i < 4; i++) plume.cone([0.22 - 0.045 * i, 1 - 0.2 * i], here, [255, 255, 255, 255]);
      ball.sphere([1], here, [255, 255, 255, 255]);
      [this.arrow, this.plume, this.ball] = [arrow, plume, ball].map((s) => paint.solid(s));
      this.frameAll();
      this.paths();
      this.controls();
      this.reset();
    }
    frameAll() { // how large all of it is, and whether the camera should follow
      let low = [Infinity, Infinity, Infinity], high = times(low, -1), own = 0, flat = 0, deep = 0, first = null;
      for (const a of this.actors) for (let k = 0; k < a.steps; k += Math.max(1, Math.floor(a.steps / 60))) {
        const middle = a.centre([k, 0]); first = first || middle;
        let reach = 0;
        a.bodies.forEach((b, i) => {
          const { p, q } = a.pose(i, [k, 0]), { c, r } = a.balls[i], at = add(p, turned(q, c));
          low = low.map((x, d) => Math.min(x, at[d] - r)); high = high.map((x, d) => Math.max(x, at[d] + r));
          reach = Math.max(reach, size(add(at, middle, -1)) + r);
          flat = Math.max(flat, Math.abs(p[2] - first[2])); deep = Math.max(deep, Math.hypot(p[0] - first[0], p[1] - first[1]));
        });
        own = Math.max(own, reach);
      }
      this.own = own || 1; this.low = low; this.middle = times(add(low, high), 0.5);
      this.planar = deep > 0 && flat < 0.02 * deep;
      let whole = 0;
      for (const a of this.actors) for (let k = 0; k < a.steps; k += Math.max(1, Math.floor(a.steps / 60))) a.balls.forEach(({ c, r }, i) => {
        const { p, q } = a.pose(i, [k, 0]);
        whole = Math.max(whole, size(add(add(p, turned(q, c)), this.middle, -1)) + r);
      });
      this.followed = whole > 1.8 * this.own ? this.actors[0].system : -1;
      this.whole = Math.min(whole, 40 * this.own);
      this.cell = nice(this.own / 3);
    }
    paths() {
      const paint = this.painter;
      for (const path of this.drawn || []) paint.drop(path.buffer);
      this.drawn = [];
      for (const a of this.actors) for (const path of a.paths) {
        const c = rgba(this.data.systems[a.bodies[path.body].system].colour), segments = [];
        let before = null;
        for (let k = 0; k < a.steps; k++) {
          const { p, q } = a.pose(path.body, [k, 0]), here = add(p, turned(q, path.at));
          if (before) segments.push([before, here, [...c.slice(0, 3), 255]]);
          before = here;
        }
        this.drawn.push({ a, buffer: paint.lines(segments) });
      }
      for (const a of this.actors) for (const guide of a.guides || []) { // what a law follows: dashes
        const segments = [];
        for (let k = 0; k + 1 < guide.points.length; k += 2) segments.push([guide.points[k], guide.points[k + 1], [150, 150, 150, 255]]);
        if (segments.length) this.drawn.push({ a, buffer: paint.lines(segments) });
      }
    }
    controls() {
      const { data, $ } = this, still = this.end <= this.start, slider = this.$(".track input");
      $(".bar").classList.toggle("still", still);
      Object.assign(slider, { min: this.start, max: this.end, value: this.start });
      $(".marks").replaceChildren(...data.marks.filter((m) => m.time >= this.start && m.time <= this.end).map((m) => {
        const tick = Object.assign(document.createElement("i"), { title: `${+m.time.toPrecision(5)} s: ${m.text}`, className: m.kind, onclick: () => this.seek(m.time) });
        tick.style.left = `${(100 * (m.time - this.start)) / (this.end - this.start || 1)}%`;
        return tick;
      }));
      const length = this.end - this.start, natural = still ? 1 : length > 40 ? nice(length / 20) : length < 3 ? nice(length / 6) : 1;
      const speeds = [...new Set([0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10, 100, natural])].sort((x, y) => x - y);
      $(".speed").replaceChildren(...speeds.map((s) => new Option(`${+s.toPrecision(3)}×`, s, s === natural, s === natural)));
      this.rate = natural;
      const follow = $(".follow");
      follow.replaceChildren(new Option("fixed camera", -1), ...data.systems.map((s, i) => new Option(`follow ${s.name}`, i)));
      follow.value = this.followed;
      follow.hidden = still;
      this.legend();
      this.drives(still);
      $(".said b").textContent = data.title;
    }
    drives(still) { // a slider for each joint of a robot that stands
      const box = this.$(".drives"), actor = still && this.actors.length === 1 ? this.actors[0] : null, hinges = (actor && actor.hinges) || [];
      box.hidden = !hinges.length;
      if (!hinges.length) return;
      const values = hinges.map((h) => h.value), summary = document.createElement("summary");
      summary.textContent = "Joints";
      const rows = hinges.map((h, i) => {
        const label = document.createElement("label"), scale = h.kind === "revolute" ? 180 / Math.PI : 1000, unit = h.kind === "revolute" ? "°" : " mm";
        label.innerHTML = '<span></span><input type="range" step="any"><output></output>';
        const [name, slider, shown] = label.children;
        name.textContent = h.name;
        Object.assign(slider, { min: h.lower, max: h.upper, value: h.value });
        slider.dataset.joint = h.name;
        const say = () => { shown.textContent = `${(values[i] * scale).toFixed(1)}${unit}`; };
        slider.oninput = () => { values[i] = +slider.value; actor.move(values); say(); this.later(); };
        slider.ondblclick = () => { slider.value = h.value; slider.oninput(); };
        slider.title = `${h.name}: ${(h.lower * scale).toFixed(0)} to ${(h.upper * scale).toFixed(0)}${unit}; double click: back`;
        say();
        return label;
      });
      box.open = this.$(".view").clientWidth > 560;
      box.replaceChildren(summary, ...rows);
    }
    legend() {
      const box = this.$(".legend");
      box.replaceChildren(...this.data.systems.filter(() => this.data.systems.length > 1).map((s, i) => {
        const label = document.createElement("label");
        label.innerHTML = '<input type="checkbox" checked><span class="swatch"></span><span></span>';
        label.children[1].style.background = s.colour; label.children[2].textContent = s.name;
        label.children[0].onchange = (e) => { s.hidden = !e.target.checked; this.later(); };
        return label;
      }), ...(this.data.systems.length > 1 ? [document.createElement("hr")] : []), ...TOGGLES.filter(([key]) => this.has(key)).map(([key, text]) => {
        const label = document.createElement("label");
        label.innerHTML = `<input type="checkbox"><span>${text}</span>`;
        label.children[0].checked = this.shown[key];
        label.children[0].onchange = (e) => { this.shown[key] = e.target.checked; this.later(); };
        return label;
      }));
    }
    has(key) {
      const some = (f) => this.actors.some(f);
      return { path: some((a) => a.paths.length && a.steps > 1), ghost: this.end > this.start, loads: some((a) => a.loads.length || a.thrusters.length), axes: some((a) => a.joints.length),
        frames: some((a) => a.frames.length || a.bodies.length), inertia: some((a) => a.bodies.some((b) => b.box)) }[key] ?? true;
    }
    listen() {
      const { $ } = this, canvas = $("canvas.gl"), fingers = new Map();
      $(".play").onclick = () => (this.playing ? this.stop() : this.play());
      $(".track input").oninput = (e) => { this.stop(); this.seek(+e.target.value); };
      $(".speed").onchange = (e) => (this.rate = +e.target.value);
      $(".follow").onchange = (e) => { this.followed = +e.target.value; this.reset(); };
      $(".reset").onclick = () => this.reset();
      $(".full").onclick = () => this.fullscreen();
      $(".legends").onclick = () => { const l = $(".legend"); l.hidden = !l.hidden; $(".legends").setAttribute("aria-expanded", !l.hidden); };
      canvas.oncontextmenu = (e) => e.preventDefault();
      canvas.onpointerdown = (e) => { canvas.setPointerCapture(e.pointerId); fingers.set(e.pointerId, [e.clientX, e.clientY]); canvas.focus({ preventScroll: true }); };
      canvas.onpointerup = canvas.onpointercancel = (e) => fingers.delete(e.pointerId);
      canvas.onpointermove = (e) => {
        if (!fingers.has(e.pointerId)) return;
        const before = [...fingers.values()], [x, y] = fingers.get(e.pointerId);
        fingers.set(e.pointerId, [e.clientX, e.clientY]);
        const dx = e.clientX - x, dy = e.clientY - y;
        if (fingers.size === 1) (e.buttons & 6 || e.shiftKey ? this.pan(dx, dy) : this.orbit(dx, dy));
        else if (fingers.size === 2) {
          const after = [...fingers.values()], span = ([a, b]) => Math.hypot(a[0] - b[0], a[1] - b[1]);
          this.zoom(span(before) / (span(after) || 1)); this.pan(dx / 2, dy / 2);
        }
      };
      canvas.onwheel = (e) => { e.preventDefault(); this.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 400)))); };
      canvas.ondblclick = () => this.reset();
      canvas.addEventListener("webglcontextlost", (e) => e.preventDefault());
      canvas.addEventListener("webglcontextrestored", () => { this.painter = new Painter(canvas); this.load(+this.$(".which").value || 0); });
      this.shadowRoot.addEventListener("keydown", (e) => this.key(e));
    }
    key(e) {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
      const step = ((this.end - this.start) / 200) * (e.shiftKey ? 10 : 1), canvas = e.target.tagName === "CANVAS";
      const keys = {
        " ": () => (this.playing ? this.stop() : this.play()), Home: () => this.seek(this.start), End: () => this.seek(this.end),
        ",": () => this.seek(this.time - step), ".": () => this.seek(this.time + step), r: () => this.reset(), f: () => this.fullscreen(),
        "+": () => this.zoom(0.85), "-": () => this.zoom(1.18), g: () => this.toggle("ghost"), l: () => this.toggle("labels"), a: () => this.toggle("axes"),
        ...(canvas ? { ArrowLeft: () => this.orbit(-20, 0), ArrowRight: () => this.orbit(20, 0), ArrowUp: () => this.orbit(0, -20), ArrowDown: () => this.orbit(0, 20) } : {}),
      };
      const act = keys[e.key] && (e.target.tagName !== "BUTTON" || e.key !== " ") ? keys[e.key] : null;
      if (act) { e.preventDefault(); act(); }
    }
    toggle(key) { this.shown[key] = !this.shown[key]; this.legend(); this.later(); }
    fullscreen() { document.fullscreenElement ? document.exitFullscreen() : this.requestFullscreen?.(); }
    orbit(dx, dy) { this.azimuth -= dx * 0.008; this.height = Math.max(-1.55, Math.min(1.55, this.height + dy * 0.008)); this.touched = true; this.later(); }
    zoom(factor) { this.distance = Math.max(this.own * 0.05, Math.min(this.own * 400, this.distance * factor)); this.touched = true; this.later(); }
    pan(dx, dy) {
      const { x, y } = this.axes(), s = (this.distance * 2 * Math.tan(0.3)) / (this.$(".view").clientHeight || 1);
      this.shift = add(add(this.shift, x, -dx * s), y, dy * s); this.touched = true; this.later();
    }
    reset() {
      [this.azimuth, this.height] = this.planar ? [-1.57, 1.2] : [-0.95, 0.42];
      const view = this.$(".view"), tall = Math.min(1, (view.clientWidth || 1) / (view.clientHeight || 1));
      this.distance = ((this.followed < 0 ? this.whole : this.own * 1.1) / Math.sin(0.3) / tall);
      this.shift = [0, 0, 0]; this.touched = false; this.later();
    }
    axes() {
      const z = [Math.cos(this.height) * Math.cos(this.azimuth), Math.cos(this.height) * Math.sin(this.azimuth), Math.sin(this.height)];
      const x = [-Math.sin(this.azimuth), Math.cos(this.azimuth), 0];
      return { x, y: cross(z, x), z };
    }
    play() { if (this.end <= this.start) return; if (this.time >= this.end) this.time = this.start; this.playing = performance.now(); this.$(".play").innerHTML = this.icon("pause"); this.later(); }
    stop() { this.playing = 0; this.$(".play").innerHTML = this.icon("play"); }
    seek(t) { this.time = Math.max(this.start, Math.min(this.end, t)); this.later(); }
    later() { if (!this.waiting && this.painter && this.actors) { this.waiting = true; requestAnimationFrame((now) => { this.waiting = false; this.frame(now); }); } }
    frame(now) {
      if (this.playing) {
        this.time += (Math.max(0, now - this.playing) / 1000) * this.rate; this.playing = now;
        if (this.time >= this.end) { this.time = this.end; this.stop(); } else this.later();
      }
      this.paint();
    }
    live() { // the systems as they are now; at a change, as they are after it
      const t = this.time, hidden = (a) => this.data.systems[a.system].hidden;
      return this.actors.filter((a) => !hidden(a) && t >= a.first && (t < a.last || (t <= a.last && !a.next))).map((a) => ({ a, at: a.place(t) }));
    }
    paint() {
      const { gl, programs } = this.painter, view = this.$(".view"), canvas = this.$("canvas.gl"), ratio = Math.min(2, devicePixelRatio || 1);
      const width = Math.max(1, view.clientWidth), height = Math.max(1, view.clientHeight);
      for (const each of [canvas, this.$("canvas.ink")]) if (each.width !== Math.round(width * ratio) || each.height !== Math.round(height * ratio)) {
        each.width = Math.round(width * ratio); each.height = Math.round(height * ratio);
      }
      const live = this.live(), dark = this.classList.contains("dark") && !matchMedia("print").matches;
      const { x, y, z } = this.axes();
      const leader = this.followed >= 0 && live.find(({ a }) => a.system === this.followed);
      this.anchor = leader ? leader.a.centre(leader.at) : this.followed >= 0 && this.anchor ? this.anchor : this.middle;
      const target = add(this.anchor, this.shift), eye = add(target, z, this.distance), f = 1 / Math.tan(0.3);
      const camera = times4(perspective(f, width / height, this.distance / 100, this.distance * 30 + 20 * this.own), look(eye, x, y, z));
      this.seen = { camera, width, height, x, y, z, target, perMetre: (height * f) / 2 / this.distance };
      gl.viewport(0, 0, canvas.width, canvas.height); gl.clearColor(0, 0, 0, 0); gl.depthMask(true); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      const key = unit(add(add(times(x, 0.45), y, 0.75), z, 0.75));
      const light = { camera, eye, key, tint: [0, 0, 0], glow: 0, dark: +dark, opacity: 1 };
      if (this.shown.bodies) for (const { a, at } of live) if (!a.ghost) this.bodies(a, at, a.solids, light);
      if (this.shown.loads) for (const { a, at } of live) this.loads(a, at, light);
      if (this.shown.centre) for (const { a, at } of live) if (a.count > 1 && !a.ghost) this.mark(a.centre(at), light);
      this.strokes(live, camera, width, height, ratio);
      gl.depthMask(false);
      if (this.shown.grid) {
        programs.grid({ camera, middle: [target[0], target[1], this.low[2] - 0.02 * this.own], reach: 6 * this.own, cell: this.cell, strength: dark ? 0.22 : 0.26, tint: dark ? [0.6, 0.65, 0.7] : [0.35, 0.4, 0.46] });
        this.painter.draw(this.painter.plane);
      }
      const veiled = (list, opacity) => { // first the depth, so that only the nearest surface shows
        for (const { a, at, solids } of list) {
          gl.depthMask(true); gl.colorMask(false, false, false, false); this.bodies(a, at, solids, light);
          gl.depthMask(false); gl.colorMask(true, true, true, true); this.bodies(a, at, solids, { ...light, opacity });
        }
      };
      gl.enable(gl.POLYGON_OFFSET_FILL); gl.polygonOffset(-2, -4); // a ghost on the very body that it is compared with is in front of it
      if (this.shown.bodies) veiled(live.filter(({ a }) => a.ghost).map(({ a, at }) => ({ a, at, solids: a.solids })), 0.4);
      gl.disable(gl.POLYGON_OFFSET_FILL);
      if (this.shown.inertia) veiled(live.map(({ a, at }) => ({ a, at, solids: a.boxes })), 0.35);
      if (this.shown.ghost && this.time > this.start && this.shown.bodies)
        veiled(this.actors.filter((a) => a.first <= this.start && !a.ghost && !this.data.systems[a.system].hidden).map((a) => ({ a, at: [0, 0], solids: a.solids })), 0.16);
      gl.depthMask(true);
      this.write(live, dark, ratio);
      const slider = this.$(".track input");
      if (+slider.value !== this.time) slider.value = this.time;
      const digits = Math.max(0, Math.min(6, 3 - Math.ceil(Math.log10((this.end - this.start) || 1))));
      this.$(".time").textContent = `${this.time.toFixed(digits)} / ${this.end.toFixed(digits)} s`;
      slider.setAttribute("aria-valuetext", `${this.time.toFixed(digits)} s`);
      const near = this.data.marks.filter((m) => m.time <= this.time + 1e-9 && this.time - m.time < (this.end - this.start) / 25 + 1e-9).slice(-2);
      this.$(".said span").textContent = near.map((m) => m.text).join("; ");
    }
    bodies(a, at, solids, light) {
      a.bodies.forEach((body, i) => {
        if (!solids[i] || this.data.systems[body.system].hidden) return;
        const { p, q } = a.pose(i, at);
        this.painter.programs.body({ ...light, model: matrix(p, q) }); this.painter.draw(solids[i]);
      });
    }
    loads(a, at, light) {
      const glow = (tint, model, thing, opacity = 1) => { this.painter.programs.body({ ...light, tint, glow: 0.85, opacity, model }); this.painter.draw(thing); };
      for (const load of a.loads) {
        const v = a.value(load, at, 3), s = size(v) / load.peak;
        if (s < 1e-3) continue;
        const { p, q } = a.pose(load.body, at), point = add(p, turned(q, load.at)), l = this.own * 0.55 * (0.25 + 0.75 * s);
        const tip = load.kind === "force" ? add(point, unit(v), -l) : point; // a force pushes on its point
        glow(load.kind === "force" ? [0.75, 0.06, 0.04] : [0.35, 0.05, 0.6], matrix(tip, toward(v), [l, l, l]), this.arrow);
      }
      const gl = this.painter.gl;
      for (const thruster of a.thrusters) {
        const [level] = a.value(thruster, at, 1), { p, q } = a.pose(thruster.body, at), point = add(p, turned(q, thruster.at));
        const out = toward(turned(q, times(thruster.direction, -1))), l = this.own * 0.3 * (0.3 + 0.7 * level), r = this.own * 0.03;
        if (this.shown.bodies) { this.painter.programs.body({ ...light, tint: [0.12, 0.13, 0.15], glow: 0.6, model: matrix(point, out, [r / 0.3, r / 0.3, r * 1.3]) }); this.painter.draw(this.plume); }
        if (level < 1e-3) continue;
        gl.depthMask(false); glow([1, 0.45, 0.08], matrix(point, out, [l, l, l]), this.plume, 0.3);
        gl.disable(gl.DEPTH_TEST); glow([1, 0.45, 0.08], matrix(point, out, [l, l, l]), this.plume, 0.12); // also behind or inside a body
        gl.enable(gl.DEPTH_TEST); gl.depthMask(true);
      }
    }
    mark(point, light) {
      const s = this.own * 0.022;
      this.painter.gl.disable(this.painter.gl.DEPTH_TEST);
      this.painter.programs.body({ ...light, tint: [0.85, 0.65, 0.02], glow: 0.7, model: matrix(point, [0, 0, 0, 1], [s, s, s]) }); this.painter.draw(this.ball);
      this.painter.gl.enable(this.painter.gl.DEPTH_TEST);
    }
    strokes(live, camera, width, height, ratio) {
      const { programs } = this.painter, pen = { camera, screen: [width, height], opacity: 1 }, segments = [];
      if (this.shown.path) for (const { a, buffer } of this.drawn) if (!this.data.systems[a.system].hidden) {
        programs.line({ ...pen, width: 1.6, opacity: 0.75 }); this.painter.draw(buffer);
      }
      const triad = (p, q, l) => [[224, 64, 54], [38, 160, 75], [52, 110, 224]].forEach((c, d) => segments.push([p, add(p, turned(q, [0, 1, 2].map((i) => (i === d ? l : 0)))), [...c, 255]]));
      for (const { a, at } of live) {
        if (this.shown.frames && !a.ghost) {
          a.bodies.forEach((b, i) => { const { p, q } = a.pose(i, at); if (b.name) triad(p, q, this.own * 0.09); });
          for (const frame of a.frames) { const { p, q } = a.pose(frame.body, at); triad(add(p, turned(q, frame.at)), product(q, frame.at.slice(3)), this.own * 0.12); }
        }
        if (this.shown.axes) for (const joint of a.joints) {
          const { p, q } = a.pose(joint.body, at), d = times(turned(q, joint.axis), this.own * 0.16);
          segments.push([add(p, d, -1), add(p, d), [204, 121, 20, 255]]);
        }
      }
      const buffer = this.painter.lines(segments);
      if (buffer) { programs.line({ ...pen, width: 2.2 }); this.painter.draw(buffer); this.painter.drop(buffer); }
    }
    project(p) {
      const m = this.seen.camera, w = m[3] * p[0] + m[7] * p[1] + m[11] * p[2] + m[15];
      if (w <= 0) return null;
      return [0, 1].map((i) => (m[i] * p[0] + m[4 + i] * p[1] + m[8 + i] * p[2] + m[12 + i]) / w).map((v, i) => ((i ? 1 - v : 1 + v) / 2) * (i ? this.seen.height : this.seen.width));
    }
    write(live, dark, ratio) {
      const pen = this.$("canvas.ink").getContext("2d"), { width, height } = this.seen, text = dark ? "#e4e8ec" : "#1c2127", ground = dark ? "#14181dcc" : "#f3f5f7cc";
      pen.setTransform(ratio, 0, 0, ratio, 0, 0); pen.clearRect(0, 0, width, height);
      pen.font = '12px system-ui, "Noto Sans", "DejaVu Sans", sans-serif'; pen.lineJoin = "round";
      const say = (words, x, y, align = "left") => { pen.textAlign = align; pen.lineWidth = 3; pen.strokeStyle = ground; pen.strokeText(words, x, y); pen.fillStyle = text; pen.fillText(words, x, y); };
      if (this.shown.labels) for (const { a, at } of live) if (!a.ghost) {
        a.bodies.forEach((b, i) => { const { p, q } = a.pose(i, at), s = b.name && b.shapes.length && this.project(add(p, turned(q, b.com))); if (s) say(b.name, s[0] + 6, s[1] - 6); });
        for (const frame of a.frames) { const { p, q } = a.pose(frame.body, at), s = this.project(add(p, turned(q, frame.at))); if (s) say(frame.name, s[0] + 6, s[1] + 12); }
      }
      const bar = nice(Math.min(140, width / 4) / this.seen.perMetre), long = bar * this.seen.perMetre, left = 12, low = height - 12;
      pen.strokeStyle = text; pen.lineWidth = 1.5; pen.beginPath(); pen.moveTo(left, low - 4); pen.lineTo(left, low); pen.lineTo(left + long, low); pen.lineTo(left + long, low - 4); pen.stroke();
      say(metres(bar), left + long / 2, low - 6, "center");
      const { x, y } = this.seen, o = [width - 34, height - 34];
      [["x", [1, 0, 0], "#e04036"], ["y", [0, 1, 0], "#26a04b"], ["z", [0, 0, 1], "#346ee0"]].sort((a, b) => dot(a[1], this.seen.z) - dot(b[1], this.seen.z)).forEach(([name, d, c]) => {
        const end = [o[0] + 22 * dot(d, x), o[1] - 22 * dot(d, y)];
        pen.strokeStyle = c; pen.lineWidth = 2; pen.beginPath(); pen.moveTo(...o); pen.lineTo(...end); pen.stroke();
        pen.textAlign = "center"; pen.fillStyle = c; pen.fillText(name, o[0] + 30 * dot(d, x), o[1] - 30 * dot(d, y) + 4);
      });
    }
  }
  customElements.define("spacearm-scene", SceneElement);
})();
