"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const view = document.getElementById("view"), canvas = document.getElementById("canvas");
  const about = document.getElementById("about"), pen = canvas.getContext("2d");
  const left = 210, top = 26, rowHeight = 18, gap = 6; // CSS pixels: names of lanes, the ruler, a row, between lanes
  const hues = [212, 172, 268, 40, 318, 92, 190, 240]; // red is for what is wrong

  // Each lane gets its place from top to bottom, and each bar what is needed to draw it.
  let height = top + gap, end = 1;
  const problems = [];
  for (const lane of data.lanes) {
    lane.y = height;
    height += lane.rows * rowHeight + gap;
    lane.bars = lane.bars.map(([row, from, to, started, name], i) => {
      end = Math.max(end, to);
      return { row, from, to, started, name: data.names[name], about: lane.about[i], lane, bad: false, open: false };
    });
    for (const i of lane.bad) { lane.bars[i].bad = true; problems.push(lane.bars[i]); }
    for (const i of lane.open) lane.bars[i].open = true;
    lane.longest = lane.bars.reduce((most, b) => Math.max(most, b.to - b.from), 0);
  }
  problems.sort((a, b) => a.from - b.from);
  document.getElementById("height").style.height = height + "px";

  const hueOf = (name) => {
    let h = 0;
    for (const c of name.split(/[ #]/)[0]) h = (h * 31 + c.charCodeAt(0)) % 9973;
    return hues[h % hues.length];
  };

  // The window of time that is shown, in µs.
  let from = -end * 0.01, to = end * 1.01, wanted = "", chosen = -1, width = 0, shown = 0, due = false;

  const x = (t) => left + ((t - from) / (to - from)) * (width - left);
  const timeAt = (px) => from + ((px - left) / (width - left)) * (to - from);
  const redraw = () => {
    if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); }
  };
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const text = (us) => {
    const size = Math.abs(us);
    if (size >= 1e6) return +(us / 1e6).toFixed(6) + " s";
    if (size >= 1e3) return +(us / 1e3).toFixed(3) + " ms";
    return +us.toFixed(2) + " µs";
  };

  function resize() {
    const scale = window.devicePixelRatio || 1;
    // The canvas covers what is visible and stays there; the element around it is as high as all lanes.
    width = view.clientWidth; shown = view.clientHeight;
    canvas.width = width * scale; canvas.height = shown * scale;
    canvas.style.height = shown + "px";
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    redraw();
  }

  function draw() {
    const ink = color("--ink"), faint = color("--faint"), line = color("--line"), back = color("--back"), bad = color("--bad");
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const scroll = view.scrollTop;
    pen.fillStyle = back;
    pen.fillRect(0, 0, width, shown);
    data.lanes.forEach((lane, i) => {
      const y = lane.y - scroll, tall = lane.rows * rowHeight;
      if (y + tall < top || y > shown) return;
      pen.fillStyle = i % 2 ? back : color("--stripe");
      pen.fillRect(0, y - gap / 2, width, tall + gap);
      bars(lane, y, { ink, bad, dark });
      pen.fillStyle = i % 2 ? back : color("--stripe");
      pen.fillRect(0, y - gap / 2, left, tall + gap);
      pen.font = "12px system-ui, sans-serif";
      pen.textBaseline = "middle";
      pen.fillStyle = ink;
      pen.fillText("rank " + lane.rank, 12, y + rowHeight / 2);
      pen.fillStyle = faint;
      pen.fillText(lane.group, 70, y + rowHeight / 2, left - 78);
    });
    ruler(faint, line, back);
  }

  function bars(lane, y, colors) {
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const covered = new Array(lane.rows).fill(-1); // pixels that are drawn already: many bars may share one
    for (let i = firstVisible(lane); i < lane.bars.length && lane.bars[i].from <= to; i++) {
      const b = lane.bars[i];
      if (b.to < from) continue;
      const a = Math.max(left, x(b.from)), z = Math.min(width, Math.max(x(b.to), x(b.from) + 1.5));
      if (z <= covered[b.row] && !b.bad) continue;
      covered[b.row] = Math.max(covered[b.row], Math.floor(z));
      const top = y + b.row * rowHeight + 1, tall = rowHeight - 2, hue = hueOf(b.name);
      const fades = wanted && !b.about.toLowerCase().includes(wanted);
      pen.globalAlpha = fades ? 0.15 : 1;
      pen.fillStyle = b.bad ? colors.bad : `hsl(${hue} 55% ${colors.dark ? 42 : 62}%)`;
      pen.fillRect(a, top, z - a, tall);
      if (b.started > b.from && z - a > 3) { // called, and not begun
        pen.fillStyle = colors.dark ? "#0007" : "#fff9";
        pen.fillRect(a, top, Math.min(z, x(b.started)) - a, tall);
      }
      if (b.open && z - a > 6) {
        pen.strokeStyle = colors.dark ? "#fff8" : "#0008";
        pen.setLineDash([4, 3]);
        pen.strokeRect(a + 0.5, top + 0.5, z - a - 1, tall - 1);
        pen.setLineDash([]);
      }
      if (z - a > 46) {
        pen.save();
        pen.beginPath(); pen.rect(a, top, z - a - 3, tall); pen.clip();
        pen.fillStyle = b.bad ? "#fff" : colors.ink;
        pen.fillText(b.name, a + 4, top + tall / 2);
        pen.restore();
      }
      pen.globalAlpha = 1;
    }
  }

  // firstVisible skips the bars that begin so early that even the longest has ended.
  function firstVisible(lane) {
    let low = 0, high = lane.bars.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (lane.bars[mid].from < from - lane.longest) low = mid + 1; else high = mid;
    }
    return low;
  }

  function ruler(faint, line, back) {
    pen.fillStyle = back;
    pen.fillRect(0, 0, width, top);
    const rough = ((to - from) / Math.max(1, width - left)) * 110, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      pen.fillStyle = line;
      pen.fillRect(x(t), 0, 1, shown);
      pen.fillStyle = faint;
      pen.fillText(text(Math.round(t / step) * step), x(t) + 4, top / 2);
    }
    pen.fillStyle = line;
    pen.fillRect(0, top, width, 1);
    pen.fillRect(left, 0, 1, shown);
  }

  function barAt(px, py) {
    const y = py + view.scrollTop, t = timeAt(px), slack = ((to - from) / width) * 2;
    if (px < left || py < top) return null;
    const lane = data.lanes.find((l) => y >= l.y && y < l.y + l.rows * rowHeight);
    if (!lane) return null;
    const row = Math.floor((y - lane.y) / rowHeight);
    let hit = null;
    for (let i = firstVisible(lane); i < lane.bars.length && lane.bars[i].from <= t + slack; i++) {
      const b = lane.bars[i];
      if (b.row === row && b.to >= t - slack) hit = b;
    }
    return hit;
  }

  function zoom(factor, px = left + (width - left) / 2) {
    const t = timeAt(px), least = 0.01, most = end * 4;
    const span = Math.min(most, Math.max(least, (to - from) * factor));
    const part = (t - from) / (to - from);
    from = t - span * part; to = from + span;
    redraw();
  }

  function shift(part) {
    const by = (to - from) * part;
    from += by; to += by;
    redraw();
  }

  function everything() { from = -end * 0.01; to = end * 1.01; redraw(); }

  function show(b) {
    const span = Math.max(b.to - b.from, 1) * 4;
    from = b.from - span * 0.3; to = from + span;
    view.scrollTop = b.lane.y - shown / 3;
    redraw();
  }

  function nextProblem() {
    if (problems.length) { chosen = (chosen + 1) % problems.length; show(problems[chosen]); }
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (e) => {
    drag = { x: e.clientX, y: e.clientY, from, to, scroll: view.scrollTop };
    canvas.setPointerCapture(e.pointerId);
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointerup", () => { drag = null; canvas.classList.remove("dragging"); });
  canvas.addEventListener("pointermove", (e) => {
    if (drag) {
      const by = ((drag.x - e.clientX) / (width - left)) * (drag.to - drag.from);
      from = drag.from + by; to = drag.to + by;
      view.scrollTop = drag.scroll + drag.y - e.clientY;
      about.hidden = true;
      redraw();
      return;
    }
    const box = canvas.getBoundingClientRect(), b = barAt(e.clientX - box.left, e.clientY - box.top);
    about.hidden = !b;
    if (!b) return;
    about.textContent = b.about;
    about.style.left = Math.max(8, Math.min(e.clientX + 14, innerWidth - about.offsetWidth - 8)) + "px";
    about.style.top = Math.max(8, Math.min(e.clientY + 16, innerHeight - about.offsetHeight - 8)) + "px";
  });
  canvas.addEventListener("pointerleave", () => { about.hidden = true; });
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && !e.shiftKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return; // scrolls the lanes
    e.preventDefault();
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY / 300), e.clientX - canvas.getBoundingClientRect().left);
    else shift((e.deltaX || e.deltaY) / (width - left));
  }, { passive: false });

  const keys = {
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": everything, "n": nextProblem,
    "ArrowLeft": () => shift(-0.2), "ArrowRight": () => shift(0.2),
  };
  addEventListener("keydown", (e) => {
    if (e.target.id !== "find" && !e.ctrlKey && !e.metaKey && keys[e.key]) { keys[e.key](); e.preventDefault(); }
  });
  document.getElementById("in").onclick = keys["+"];
  document.getElementById("out").onclick = keys["-"];
  document.getElementById("all").onclick = everything;
  document.getElementById("bad").onclick = nextProblem;
  document.getElementById("bad").disabled = !problems.length;
  document.getElementById("find").oninput = (e) => { wanted = e.target.value.trim().toLowerCase(); redraw(); };
  view.addEventListener("scroll", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(resize).observe(view);
  resize();
})();
