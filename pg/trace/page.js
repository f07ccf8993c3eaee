"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const view = document.getElementById("view"), canvas = document.getElementById("canvas");
  const about = document.getElementById("about"), pen = canvas.getContext("2d");
  const left = 220, top = 34; // CSS pixels: names of lanes, the ruler
  const hues = [212, 40, 165, 275, 90, 318, 190, 240]; // red is for what is wrong
  let rowHeight = 18, gap = 6, small = 11; // a row, between lanes, the font of bars: less where lanes are many

  // Each bar and slot gets what is needed to draw it.
  let end = 1;
  const problems = [];
  for (const lane of data.lanes) {
    lane.bars = lane.bars.map(([row, from, to, started, name], i) => {
      end = Math.max(end, to);
      return { row, from, to, started, name: data.names[name], about: lane.about[i], lane, bad: false, open: false };
    });
    lane.slots = lane.slots.map(([row, from, to, text, died, about]) => {
      end = Math.max(end, to);
      return { row, from, to, text, died: died === 1, about: "rank " + lane.rank + ": " + text + "\n" + about };
    });
    for (const i of lane.bad) { lane.bars[i].bad = true; problems.push(lane.bars[i]); }
    for (const i of lane.open) lane.bars[i].open = true;
    lane.longest = lane.bars.reduce((most, b) => Math.max(most, b.to - b.from), 0);
  }
  problems.sort((a, b) => a.from - b.from);

  // The axis is broken where nothing begins or ends for long. Parts lie between breaks: at is where they begin on the axis, in
  // µs of a time that is shown in full, and long is how much of the axis they take.
  const breaks = data.breaks.map(([from, to, share, waits]) => ({ from, to, share, waits: waits === 1 }));
  const parts = [];
  {
    const whole = Math.max(1, end - breaks.reduce((sum, b) => sum + b.to - b.from, 0)) / (1 - breaks.reduce((sum, b) => sum + b.share, 0));
    let at = 0, time = 0;
    const part = (to, long, pause) => {
      if (to > time || pause) parts.push({ from: time, to, at, long, pause });
      at += long; time = to;
    };
    for (const b of breaks) { part(b.from, b.from - time, null); part(b.to, b.share * whole, b); }
    part(Math.max(end, time), Math.max(0, end - time), null);
  }
  const axis = (t) => { // where a time is on the axis
    if (t <= 0) return t;
    const p = parts.find((p) => t <= p.to);
    if (!p) { const last = parts[parts.length - 1]; return last.at + last.long + t - last.to; }
    return p.at + (p.to > p.from ? ((t - p.from) / (p.to - p.from)) * p.long : 0);
  };
  const timeOn = (v) => {
    if (v <= 0) return v;
    const p = parts.find((p) => v <= p.at + p.long);
    if (!p) { const last = parts[parts.length - 1]; return last.to + v - last.at - last.long; }
    return p.from + (p.long > 0 ? ((v - p.at) / p.long) * (p.to - p.from) : 0);
  };
  const whole = Math.max(1, axis(end));

  const familyOf = (name) => name.split(/[ #]/)[0];
  const families = [...new Set(data.names.map(familyOf))];
  const hueOf = (name) => hues[families.indexOf(familyOf(name)) % hues.length];

  // The window of the axis that is shown.
  let from = -whole * 0.01, to = whole * 1.01, wanted = "", chosen = -1, width = 0, shown = 0, due = false;

  const xAxis = (v) => left + ((v - from) / (to - from)) * (width - left);
  const x = (t) => xAxis(axis(t));
  const axisAt = (px) => from + ((px - left) / (width - left)) * (to - from);
  const redraw = () => {
    if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); }
  };
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A duration, to three digits.
  const text = (us) => {
    const of = (n, unit) => +n.toPrecision(3) + " " + unit;
    if (us >= 60e6) return Math.floor(us / 60e6) + " min" + (us % 60e6 >= 1e6 ? " " + Math.floor((us % 60e6) / 1e6) + " s" : "");
    if (us >= 1e6) return of(us / 1e6, "s");
    return us >= 1e3 ? of(us / 1e3, "ms") : of(us, "µs");
  };

  // What fits of a text, with dots for the rest.
  const fit = (words, room) => {
    if (pen.measureText(words).width <= room) return words;
    while (words && pen.measureText(words + "…").width > room) words = words.slice(0, -1);
    return words && words + "…";
  };

  function resize() {
    const scale = window.devicePixelRatio || 1;
    // The canvas covers what is visible and stays there; the element around it is as high as all lanes.
    width = view.clientWidth; shown = view.clientHeight;
    const rows = data.lanes.reduce((sum, l) => sum + l.rows, 0);
    gap = data.lanes.length > 24 ? 1 : 6;
    rowHeight = Math.max(11, Math.min(22, Math.floor((shown - top - gap * (data.lanes.length + 2)) / Math.max(1, rows))));
    small = rowHeight < 16 ? 9 : 11;
    let height = top + gap;
    for (const lane of data.lanes) { lane.y = height; height += lane.rows * rowHeight + gap; }
    document.getElementById("height").style.height = height + "px";
    canvas.width = width * scale; canvas.height = shown * scale;
    canvas.style.height = shown + "px";
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    redraw();
  }

  function draw() {
    const colors = { dark: matchMedia("(prefers-color-scheme: dark)").matches };
    for (const name of ["ink", "faint", "line", "back", "bad", "badfill", "stripe"]) colors[name] = color("--" + name);
    const scroll = view.scrollTop;
    pen.fillStyle = colors.back;
    pen.fillRect(0, 0, width, shown);
    const visible = data.lanes.filter((l) => l.y - scroll + l.rows * rowHeight >= top && l.y - scroll <= shown);
    const bottom = visible.length ? Math.min(shown, visible.at(-1).y - scroll + visible.at(-1).rows * rowHeight + gap / 2) : top;
    const ticks = ticksOf();
    visible.forEach((lane) => {
      pen.fillStyle = data.lanes.indexOf(lane) % 2 ? colors.back : colors.stripe;
      pen.fillRect(0, lane.y - scroll - gap / 2, width, lane.rows * rowHeight + gap);
    });
    pen.fillStyle = colors.line; // the grid lies under the bars
    for (const t of ticks.all) pen.fillRect(Math.round(x(t)), top, 1, bottom - top);
    visible.forEach((lane) => {
      bars(lane, lane.y - scroll, colors);
      slots(lane, lane.y - scroll, colors);
    });
    for (const b of breaks) tear(b, bottom, colors);
    visible.forEach((lane) => names(lane, lane.y - scroll, colors));
    ruler(ticks, colors);
  }

  function names(lane, y, colors) {
    const tall = lane.rows * rowHeight;
    pen.fillStyle = data.lanes.indexOf(lane) % 2 ? colors.back : colors.stripe;
    pen.fillRect(0, y - gap / 2, left, tall + gap);
    pen.fillStyle = colors.line;
    pen.fillRect(left - 1, y - gap / 2, 1, tall + gap);
    pen.font = (small + 1) + "px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const middle = y + rowHeight / 2;
    pen.fillStyle = colors.ink;
    pen.fillText("rank " + lane.rank, 18, middle);
    let room = left - 78;
    if (lane.nodump) {
      pen.fillStyle = colors.bad;
      pen.textAlign = "right";
      pen.fillText("no dump", left - 10, middle);
      pen.textAlign = "left";
      room -= pen.measureText("no dump").width + 14;
    }
    pen.fillStyle = colors.faint;
    pen.fillText(fit(lane.group, room), 70, middle);
  }

  function bars(lane, y, colors) {
    const last = timeOn(to);
    pen.font = small + "px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const covered = new Array(lane.rows).fill(-1); // pixels that are drawn already: many bars may share one
    for (let i = firstVisible(lane); i < lane.bars.length && lane.bars[i].from <= last; i++) {
      const b = lane.bars[i];
      if (axis(b.to) < from) continue;
      const a = Math.max(left, x(b.from)), z = Math.min(width, Math.max(x(b.to), x(b.from) + 1.5));
      if (z <= covered[b.row] && !b.bad) continue;
      covered[b.row] = Math.max(covered[b.row], Math.floor(z));
      const top = y + b.row * rowHeight + 1, tall = rowHeight - 2, hue = hueOf(b.name);
      const fades = wanted && !b.about.toLowerCase().includes(wanted);
      pen.globalAlpha = fades ? 0.15 : 1;
      pen.fillStyle = b.bad ? colors.badfill : `hsl(${hue} 55% ${colors.dark ? 34 : 68}%)`;
      pen.fillRect(a, top, z - a, tall);
      if (b.started > b.from && z - a > 3) { // called, and not begun
        pen.fillStyle = colors.dark ? "#0007" : "#fff9";
        pen.fillRect(a, top, Math.max(0, Math.min(z, x(b.started)) - a), tall);
      }
      if (b.open && z - a > 6 && !(b.bad && small < 11)) {
        pen.strokeStyle = colors.dark ? "#fffa" : "#000a";
        pen.setLineDash([4, 3]);
        pen.strokeRect(a + 0.5, top + 0.5, z - a - 1, tall - 1);
        pen.setLineDash([]);
      }
      if (z - a > 30) {
        pen.fillStyle = b.bad ? "#fff" : colors.ink;
        pen.fillText(fit(b.open ? b.name + ", waited " + text(b.to - b.from) : b.name, z - a - 8), a + 4, top + tall / 2 + 0.5);
      }
      pen.globalAlpha = 1;
    }
  }

  // slots draws what a rank has not called, as empty frames, and a cross where its process died.
  function slots(lane, y, colors) {
    pen.font = small + "px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const s of lane.slots) {
      const a = Math.max(left, x(s.from)), z = Math.min(width, x(s.to)), top = y + s.row * rowHeight + 1, tall = rowHeight - 2;
      if (z < left || a > width) continue;
      if (z - a > 2) {
        pen.fillStyle = colors.back;
        pen.fillRect(a, top, z - a, tall);
        pen.strokeStyle = colors.bad;
        pen.setLineDash([2, 3]);
        pen.strokeRect(a + 0.5, top + 0.5, Math.max(0, z - a - 1), tall - 1);
        pen.setLineDash([]);
      }
      pen.fillStyle = pen.strokeStyle = colors.bad;
      const wide = pen.measureText(s.text).width;
      if (s.died) {
        const r = Math.min(5, tall / 2 - 1), mid = top + tall / 2;
        pen.lineWidth = 2;
        pen.beginPath();
        pen.moveTo(z - r, mid - r); pen.lineTo(z + r, mid + r); pen.moveTo(z - r, mid + r); pen.lineTo(z + r, mid - r);
        pen.stroke();
        pen.lineWidth = 1;
        if (z - a < wide + 20) { // beside the cross, where there is room
          pen.fillText(s.text, z + 9 + wide < width ? z + 9 : Math.max(left + 4, a - wide - 6), mid + 0.5);
          continue;
        }
      }
      if (z - a > 30) pen.fillText(fit(s.text, z - a - 18), a + 4, top + tall / 2 + 0.5);
    }
  }

  // tear draws a break of the axis: two ragged edges through all lanes, and how long it is in the ruler.
  function tear(b, bottom, colors) {
    const a = x(b.from), z = x(b.to), mid = Math.round((a + z) / 2), half = 3;
    if (z < left || a > width || mid < left) return;
    const edge = (at, down) => {
      for (let i = 0, n = Math.ceil((bottom - top) / 6); i <= n; i++) {
        const k = down ? i : n - i;
        pen.lineTo(at + (k % 2 ? 2.5 : -2.5), Math.min(bottom, top + k * 6));
      }
    };
    pen.beginPath();
    edge(mid - half, true); edge(mid + half, false);
    pen.closePath();
    pen.fillStyle = colors.back;
    pen.fill();
    pen.strokeStyle = colors.faint;
    for (const at of [mid - half, mid + half]) { pen.beginPath(); edge(at, true); pen.stroke(); }
  }

  // firstVisible skips the bars that begin so early that even the longest has ended.
  function firstVisible(lane) {
    const first = timeOn(from);
    let low = 0, high = lane.bars.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (lane.bars[mid].from < first - lane.longest) low = mid + 1; else high = mid;
    }
    return low;
  }

  // ticksOf returns the times that the ruler names, all in one unit with one number of decimals.
  function ticksOf() {
    const rough = ((to - from) / Math.max(1, width - left)) * 90, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    const [size, unit] = step >= 1e6 ? [1e6, "s"] : step >= 1 ? [1e3, "ms"] : [1, "µs"];
    const all = [];
    for (const p of parts) {
      if (p.pause || p.at > to || p.at + p.long < from) continue;
      const first = p === parts[0] ? Math.min(p.from, timeOn(from)) : Math.max(p.from, timeOn(from));
      const last = p === parts.at(-1) ? timeOn(to) : Math.min(p.to, timeOn(to));
      for (let n = Math.ceil(first / step - 1e-6); n * step <= last + step * 1e-6; n++) if (n >= 0) all.push(n * step + 0);
    }
    return { all, size, unit, decimals: Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)) };
  }

  function ruler(ticks, colors) {
    const number = new Intl.NumberFormat("en", { minimumFractionDigits: ticks.decimals, maximumFractionDigits: ticks.decimals });
    pen.fillStyle = colors.back;
    pen.fillRect(0, 0, width, top);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = colors.faint;
    pen.fillText("time in " + ticks.unit, 18, top / 2);
    pen.textAlign = "center";
    let taken = left - 20;
    const held = []; // by breaks, whose lengths come first
    for (const b of breaks) {
      const a = x(b.from), z = x(b.to), words = text(b.to - b.from), wide = pen.measureText(words).width;
      if (z < left || a > width || z - a < 14) continue;
      const mid = Math.min(width - wide / 2 - 6, Math.max(left + wide / 2 + 6, (a + z) / 2));
      pen.fillStyle = b.waits ? colors.bad : colors.faint;
      pen.fillRect(Math.max(left, a), top - 4, Math.min(width, z) - Math.max(left, a), 2);
      if (wide + 4 <= z - a) pen.fillText(words, mid, top / 2 - 4);
      held.push([Math.min(a, mid - wide / 2), Math.max(z, mid + wide / 2)]);
    }
    for (const t of ticks.all) {
      const at = Math.round(x(t)), words = number.format(t / ticks.size), half = pen.measureText(words).width / 2;
      pen.fillStyle = colors.line;
      if (at < left) continue;
      pen.fillRect(at, top - 6, 1, 6);
      if (at - half < taken + 8 || at + half > width - 2 || held.some(([a, z]) => at + half > a + half && at - half < z - half)) continue;
      pen.fillStyle = colors.faint;
      pen.fillText(words, at, top / 2 - 4);
      taken = at + half;
    }
    pen.textAlign = "left";
    pen.fillStyle = colors.line;
    pen.fillRect(0, top - 1, width, 1);
  }

  function barAt(px, py) {
    const y = py + view.scrollTop, t = timeOn(axisAt(px)), before = timeOn(axisAt(px - 2)), after = timeOn(axisAt(px + 2));
    if (px < left || py < top) return null;
    const lane = data.lanes.find((l) => y >= l.y && y < l.y + l.rows * rowHeight);
    if (!lane) return null;
    const row = Math.floor((y - lane.y) / rowHeight);
    let hit = lane.slots.find((s) => s.row === row && s.from <= after && s.to >= before) || null;
    for (let i = firstVisible(lane); i < lane.bars.length && lane.bars[i].from <= after; i++) {
      const b = lane.bars[i];
      if (b.row === row && b.to >= before && (!hit || b.from <= t)) hit = b;
    }
    return hit;
  }

  function zoom(factor, px = left + (width - left) / 2) {
    const at = axisAt(px), least = 0.01, most = whole * 4;
    const span = Math.min(most, Math.max(least, (to - from) * factor));
    const part = (at - from) / (to - from);
    from = at - span * part; to = from + span;
    redraw();
  }

  function shift(part) {
    const by = (to - from) * part;
    from += by; to += by;
    redraw();
  }

  function everything() { from = -whole * 0.01; to = whole * 1.01; redraw(); }

  function show(b) {
    const span = Math.min(whole * 1.5, Math.max(axis(b.to) - axis(b.from), 1) * 4);
    from = axis(b.from) - span * 0.3; to = from + span;
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
  // The legend names what the picture has.
  function legend() {
    const box = document.getElementById("legend"), has = (f) => data.lanes.some(f);
    const entry = (kind, words, hue) => {
      const swatch = document.createElement("i"), item = document.createElement("span");
      swatch.className = kind;
      if (hue !== undefined) swatch.style.setProperty("--hue", hue);
      item.append(swatch, words);
      box.append(item);
    };
    for (const f of families.slice(0, 6)) entry("op", f, hueOf(f));
    if (families.length > 6) entry("op", (families.length - 6) + " more", hueOf(families[6]));
    if (has((l) => l.bars.some((b) => b.open))) entry("open", "has not ended");
    if (problems.length) entry("bad", "what is wrong");
    if (has((l) => l.slots.some((s) => !s.died))) entry("slot", "not called here");
    if (has((l) => l.slots.some((s) => s.died))) entry("died", "process died");
    if (breaks.length) entry("tear", "time left out");
    if (data.hidden) entry("slot", data.hidden + " more ranks left no dump");
  }

  legend();
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
  const absent = data.lanes.find((l) => l.slots.length) || data.lanes.find((l) => l.bad.length);
  if (absent && absent.y > shown - 40) view.scrollTop = absent.y - shown / 2;
})();
