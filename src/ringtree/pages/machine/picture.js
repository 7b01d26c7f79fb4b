'use strict';

// The machine as a picture: plain attributes only, so that a copy of it stands alone.
const machinePicture = (() => {
  const {LINKS, rate, lineRate} = machineUnits;
  const middle = (box) => box.x + box.w / 2;
  const thick = (Bps) => Math.max(1, Math.min(7, 1 + Math.log2(Math.max(1, Bps / 8e9))));

  function draw(svg, data, out, shell) {
    const {colours} = shell;
    const trapped = new Set(data.notes.filter((n) => n.kind === 'trap').map((n) => n.about.split(' ')[0]));
    const layers = Object.fromEntries(['boxes', 'links', 'devices', 'overlay'].map((name) => [name, svg.append('g').attr('class', name)]));
    for (const box of out.boxes) drawBox(layers.boxes, data, box, out.size, shell);
    const wired = new Set(out.wires.map(({link}) => link));
    for (const wire of out.wires) drawWire(layers.links, data, out, wire, colours);
    data.links.forEach((link, n) => {
      if (!wired.has(n)) drawLink(layers.links, data, out, link, n, colours);
    });
    drawTrunks(layers.links, data, out, colours);
    for (const bar of out.bars) drawBar(layers.devices, data, bar, shell);
    for (const [device, box] of out.at) {
      if (data.devices[device].kind !== 'cpu') drawDevice(layers.devices, data, device, box, out.size, trapped, colours);
    }
    return layers;
  }

  function drawBox(g, data, box, size, {colours, t}) {
    const device = data.devices[box.cpu];
    const frame = g.append('g').attr('data-device', device ? device.name : '').attr('data-kind', 'cpu').datum({device: box.cpu});
    frame.append('rect').attr('x', box.x).attr('y', box.y).attr('width', box.w).attr('height', box.h).attr('rx', size.words ? 12 : 5)
      .attr('fill', colours.raised).attr('stroke', colours['line-strong']).attr('stroke-width', 1);
    if (!size.words) return;
    const alone = device && device.numa >= 0 && data.devices.filter((d) => d.kind === 'cpu' && d.numa === device.numa).length === 1;
    const title = !device ? t('machine.nowhere') : alone ? `${t('machine.cpu')} ${device.numa}` : device.name;
    words(frame, title, box.x + size.pad, box.y + (size.words > 1 ? 18 : 14), size.words > 1 ? 13 : 10, colours.ink, 600);
    if (device && size.words > 1) words(frame, cut(device.about, box.w - 2 * size.pad, 11), box.x + size.pad, box.y + 34, 11, colours.muted);
  }

  function words(g, text, x, y, size, fill, weight = 400, anchor = 'start') {
    return g.append('text').attr('x', x).attr('y', y).attr('font-size', size).attr('font-weight', weight)
      .attr('text-anchor', anchor).attr('fill', fill).text(text);
  }

  // As much of the text as has room, about.
  function cut(text, room, size) {
    const most = Math.floor(room / (size * 0.54));
    return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text;
  }

  function drawDevice(g, data, device, box, size, trapped, colours) {
    const d = data.devices[device];
    const own = g.append('g').attr('data-device', d.name).attr('data-kind', d.kind).attr('data-rate-bps', d.rate_Bps || null)
      .attr('data-numa', d.numa).datum({device});
    const hue = {gpu: 'green', nic: 'sky', storage: 'muted', pci: 'blue'}[d.kind] || 'muted';
    own.append('rect').attr('x', box.x).attr('y', box.y).attr('width', box.w).attr('height', box.h).attr('rx', size.words ? 6 : 2)
      .attr('fill', colours.surface).attr('stroke', trapped.has(d.name) ? colours.vermillion : colours[hue])
      .attr('stroke-width', trapped.has(d.name) ? 2.5 : d.kind === 'gpu' ? 1.8 : 1.2);
    if (d.kind === 'gpu') {
      own.append('rect').attr('x', box.x).attr('y', box.y).attr('width', box.w).attr('height', box.h).attr('rx', size.words ? 6 : 2)
        .attr('fill', colours.green).attr('opacity', 0.16);
    }
    if (size.words) label(own, data, device, box, size, colours);
  }

  function label(own, data, device, box, size, colours) {
    const d = data.devices[device];
    const number = data.devices.slice(0, device).filter((other) => other.kind === d.kind).length;
    const [x, y] = [middle(box), box.y + box.h / 2];
    if (size.words === 1) {
      if (d.kind === 'gpu') words(own, number, x, y + 4, 11, colours.ink, 600, 'middle');
      if (d.kind === 'nic') words(own, number, x, y + 3.5, 9, colours.muted, 400, 'middle');
      return;
    }
    if (d.kind === 'gpu') {
      words(own, `GPU ${number}`, x, y + 5, 14, colours.ink, 600, 'middle');
    } else if (d.kind === 'nic') {
      words(own, `NIC ${number}`, x, y - 2, 11, colours.ink, 600, 'middle');
      words(own, d.rate_Bps ? lineRate(d.rate_Bps) : '–', x, y + 11, 9.5, colours.muted, 400, 'middle');
    } else words(own, cut(d.name.replace(/^[0-9a-f]{4,8}:(?=..:)/i, ''), box.w - 4, 10.5), x, y + 3.5, 10.5, colours.muted, 400, 'middle');
  }

  function drawBar(g, data, bar, {colours}) {
    const d = data.devices[bar.device];
    const own = g.append('g').attr('data-device', d.name).attr('data-kind', d.kind).datum({device: bar.device});
    own.append('rect').attr('x', bar.from).attr('y', bar.y).attr('width', bar.to - bar.from).attr('height', bar.h).attr('rx', 6)
      .attr('fill', colours.surface).attr('stroke', colours.green).attr('stroke-width', 1.8);
    own.append('rect').attr('x', bar.from).attr('y', bar.y).attr('width', bar.to - bar.from).attr('height', bar.h).attr('rx', 6)
      .attr('fill', colours.green).attr('opacity', 0.3);
    const said = cut(d.about || d.name, bar.to - bar.from - 8, 11);
    if (bar.h > 14) words(own, said, (bar.from + bar.to) / 2, bar.y + bar.h / 2 + 4, 12, colours.ink, 600, 'middle');
  }

  // A switch whose GPUs are in several rows is one: its bars are joined.
  function drawTrunks(g, data, out, colours) {
    for (const [device, own] of d3.group(out.bars, (bar) => bar.device)) {
      if (own.length < 2) continue;
      const x = out.width + 7;
      const path = d3.path();
      for (const bar of own) {
        path.moveTo(bar.to, bar.y + bar.h / 2);
        path.lineTo(x, bar.y + bar.h / 2);
      }
      path.moveTo(x, own[0].y + own[0].h / 2);
      path.lineTo(x, own.at(-1).y + own.at(-1).h / 2);
      g.append('path').attr('d', path).attr('fill', 'none').attr('stroke', colours.green).attr('stroke-width', 4).attr('opacity', 0.75)
        .attr('data-trunk', data.devices[device].name);
    }
  }

  function stroke(g, data, link, n, path, colours, width = thick(link.there_Bps)) {
    return g.append('path').attr('d', path).attr('fill', 'none').attr('stroke', colours[LINKS[link.kind]] || colours.muted)
      .attr('stroke-width', width).attr('stroke-linecap', 'round').attr('opacity', 0.75)
      .attr('data-link', `${data.devices[link.a].name}|${data.devices[link.b].name}`).attr('data-number', n)
      .attr('data-kind', link.kind).attr('data-generation', link.generation).attr('data-width', link.width)
      .attr('data-bandwidth-bps', link.there_Bps).datum({link: n});
  }

  // From what a device hangs on down to it; the second of a stack hangs on the first.
  function drawWire(g, data, out, {link, holder, device, stacked}, colours) {
    const [from, to] = [out.at.get(holder), out.at.get(device)];
    if (!from || !to) return;
    const small = !out.size.words;
    const isCpu = data.devices[holder].kind === 'cpu';
    const x = isCpu ? Math.max(from.x + 8, Math.min(from.x + from.w - 8, middle(to))) : middle(from);
    const y = from.y + from.h - (isCpu ? (small ? 2 : 6) : 0);
    const path = d3.path();
    if (stacked) {
      path.moveTo(to.x + to.w - 3, to.y - 4);
      path.lineTo(to.x + to.w - 3, to.y);
    } else {
      const half = (y + to.y) / 2;
      path.moveTo(x, y);
      path.bezierCurveTo(x, half, middle(to), half, middle(to), to.y);
    }
    stroke(g, data, data.links[link], link, path, colours, small ? 1 : thick(data.links[link].there_Bps));
  }

  // A link that is no branch: down to a bar, along the zone below GPUs, or over the boxes.
  function drawLink(g, data, out, link, n, colours) {
    const bars = [link.a, link.b].map((device) => out.bars.filter((bar) => bar.device === device));
    if (bars[0].length || bars[1].length) {
      for (const path of toBar(out, link, bars)) stroke(g, data, link, n, path, colours, Math.min(thick(link.there_Bps), out.size.words ? 5 : 2));
      return;
    }
    const [from, to] = [out.at.get(link.a), out.at.get(link.b)];
    if (!from || !to) return;
    const path = link.kind === 'cpu' ? over(out, from, to) : below(out, link.a, link.b);
    stroke(g, data, link, n, path, colours, link.kind === 'cpu' ? thick(link.there_Bps) : Math.min(4.5, 1 + link.width * 0.45));
  }

  function toBar(out, link, bars) {
    const found = [];
    if (bars[0].length && bars[1].length) {
      const far = bars[0].some((bar) => bar.row < 0) ? bars[0][0] : bars[1][0];
      for (const bar of far === bars[0][0] ? bars[1] : bars[0]) {
        const path = d3.path();
        path.moveTo(bar.from - 4 - 3 * bar.lane, bar.y + bar.h / 2);
        path.lineTo(bar.from - 4 - 3 * bar.lane, far.y);
        found.push(path);
      }
      return found;
    }
    const [ends, device] = bars[0].length ? [bars[0], link.b] : [bars[1], link.a];
    const box = out.at.get(device);
    const bar = ends.find(({row}) => row === out.rowOf.get(device)) || ends[0];
    if (!box || !bar) return found;
    const path = d3.path();
    const spread = bar.lane * 5;
    path.moveTo(middle(box) + spread, box.y + box.h);
    path.lineTo(middle(box) + spread, bar.y);
    return [path];
  }

  // Between two boxes side by side straight, else in a curve over them.
  function over(out, from, to) {
    const path = d3.path();
    const [left, right] = from.x <= to.x ? [from, to] : [to, from];
    const near = out.rowOf.size && left.y === right.y && right.x - (left.x + left.w) < out.size.gap * 2;
    if (left.y !== right.y) {
      const [upper, lower] = from.y < to.y ? [from, to] : [to, from];
      const foot = out.boxes.find((box) => box.x === upper.x && box.y === upper.y);
      const y = foot ? foot.y + foot.h : upper.y + upper.h;
      path.moveTo(middle(upper), y);
      path.bezierCurveTo(middle(upper), (y + lower.y) / 2, middle(lower), (y + lower.y) / 2, middle(lower), lower.y);
    } else if (near) {
      path.moveTo(left.x + left.w, left.y + left.h / 2);
      path.lineTo(right.x, right.y + right.h / 2);
    } else {
      path.moveTo(middle(left), left.y);
      const rise = Math.min(32, 12 + (middle(right) - middle(left)) / 60);
      path.bezierCurveTo(middle(left), left.y - rise, middle(right), right.y - rise, middle(right), right.y);
    }
    return path;
  }

  // Along the zone below the row, the deeper the farther; between rows across. `shift` sets channels apart.
  function below(out, a, b, shift = 0) {
    const [from, to] = [out.at.get(a), out.at.get(b)];
    const path = d3.path();
    const [x1, y1, x2, y2] = [middle(from) + shift, from.y + from.h, middle(to) + shift, to.y + to.h];
    path.moveTo(x1, y1);
    const row = out.rows[out.rowOf.get(a)];
    if (out.rowOf.get(a) === out.rowOf.get(b) && row) {
      const deep = Math.min(1, Math.sqrt(Math.abs(x2 - x1) / out.reach) + shift / 150);
      const sink = (row.zone + out.size.pad - 8) * 1.333 * deep; // a curve goes down three quarters of its handles
      path.bezierCurveTo(x1, y1 + sink, x2, y2 + sink, x2, y2);
    } else {
      const half = (y1 + y2) / 2;
      path.bezierCurveTo(x1, half + 20, x2, half + 20, x2, y2 > y1 ? to.y : y2);
    }
    return path;
  }

  return {draw, below, words, rate};
})();
