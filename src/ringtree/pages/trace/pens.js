'use strict';

// What the timeline is drawn with: pixels for the events on the screen, a canvas for what lies over them, and the same
// strokes as SVG for the export. Kinds are told apart by colour, by pattern and by height.
const tracePens = (() => {
  const TILE = 8; // pixels; every pattern repeats after so many
  const NS = 'http://www.w3.org/2000/svg';
  const isSolid = () => true;
  // By kind: is the pixel (x, y) of the tile in the kind's full colour, or in its pale one?
  const PATTERNS = [
    isSolid, // copy
    (x, y) => (x + y) % 4 !== 0, // reduce: dense stripes
    isSolid, // send
    (x, y) => (x - y + TILE) % 4 === 0, // wait: sparse stripes, the other way
    (x) => x % 4 < 2, // stall: upright bars
    (x, y) => y % 4 !== 0, // compute: lying bars
  ];
  const NAMES = ['blue', 'orange', 'green', 'faint', 'vermillion', 'sky'];

  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  function mix(a, b, share) {
    const [from, to] = [channels(a), channels(b)];
    const parts = from.map((part, i) => Math.round(part * (1 - share) + to[i] * share));
    return `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
  }

  // The two colours of every kind in the theme.
  function inks(colours) {
    return NAMES.map((name, kind) => {
      const full = colours[name];
      const share = kind === traceModel.WAIT ? 0.78 : 0.6;
      return {full, pale: mix(full, colours.surface, share)};
    });
  }

  function packed(hex) {
    const [red, green, blue] = channels(hex);
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }

  // Rectangles as pixels, in memory: a million of them cost less than a thousand calls of a canvas.
  function pixelPen(canvas, ratio, colours) {
    const context = canvas.getContext('2d', {alpha: false});
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const [width, ground] = [canvas.width, packed(colours.surface)];
    const size = Math.max(1, Math.round(ratio)); // of a tile's pixel on the screen
    const period = TILE * size;
    const tiles = inks(colours).map(({full, pale}, kind) => {
      const tile = new Uint32Array(period * period);
      for (let i = 0; i < tile.length; i++) {
        const [x, y] = [Math.floor((i % period) / size), Math.floor(i / period / size)];
        tile[i] = packed(PATTERNS[kind](x, y) ? full : pale);
      }
      return tile;
    });
    return {
      period,
      clear: () => pixels.fill(ground),
      blank(left, right, top, bottom) {
        for (let y = Math.max(0, top); y < Math.min(bottom, canvas.height); y++) {
          pixels.fill(ground, y * width + left, y * width + right);
        }
      },
      // `shift`: how far the pattern has moved to the left with the events it is on
      tile(kind, left, right, top, bottom, shift) {
        const tile = tiles[kind];
        for (let y = Math.max(0, top); y < Math.min(bottom, canvas.height); y++) {
          const line = (y % period) * period;
          for (let x = left; x < right; x++) pixels[y * width + x] = tile[line + ((x + shift) % period)];
        }
      },
      show: () => context.putImageData(image, 0, 0),
    };
  }

  function canvasPen(context) {
    const style = ({stroke, width = 1, dash = []}) => {
      [context.strokeStyle, context.lineWidth] = [stroke, width];
      context.setLineDash(dash);
      context.lineJoin = 'round';
    };
    const trace = (points) => {
      context.beginPath();
      points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    };
    return {
      rect(x, y, width, height, {fill, ...outline}) {
        if (fill) context.fillStyle = fill;
        if (fill) context.fillRect(x, y, width, height);
        if (outline.stroke) style(outline);
        if (outline.stroke) context.strokeRect(x, y, width, height);
      },
      line(points, outline) {
        style(outline);
        trace(points);
        context.stroke();
      },
      area(points, fill) {
        context.fillStyle = fill;
        trace(points);
        context.fill();
      },
      text(x, y, words, {fill, size = 12, anchor = 'start', weight = 400}) {
        context.font = `${weight} ${size}px system-ui, sans-serif`;
        const align = anchor === 'middle' ? 'center' : anchor;
        [context.fillStyle, context.textAlign, context.textBaseline] = [fill, align, 'middle'];
        context.fillText(words, x, y);
      },
      clipped(x, y, width, height, draw) {
        context.save();
        context.beginPath();
        context.rect(x, y, width, height);
        context.clip();
        draw();
        context.restore();
      },
    };
  }

  function element(name, attributes, ...children) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const round = (value) => Math.round(value * 100) / 100;
  const join = (points) => points.map(([x, y]) => `${round(x)},${round(y)}`).join(' ');

  function svgPen(root) {
    let into = root;
    let clips = 0;
    const add = (...parts) => into.append(element(...parts));
    const outlined = ({stroke, width = 1, dash}) => ({
      stroke, 'stroke-width': width, 'stroke-dasharray': dash && dash.join(' '), 'stroke-linejoin': 'round',
    });
    return {
      rect(x, y, width, height, {fill = 'none', ...outline}) {
        const drawn = outline.stroke ? outlined(outline) : {};
        add('rect', {x: round(x), y: round(y), width: round(width), height: round(height), fill, ...drawn});
      },
      line: (points, outline) => add('polyline', {points: join(points), fill: 'none', ...outlined(outline)}),
      area: (points, fill) => add('polygon', {points: join(points), fill}),
      text(x, y, words, {fill, size = 12, anchor = 'start', weight = 400}) {
        const font = {'font-size': size, 'font-weight': weight, 'font-family': 'system-ui, sans-serif'};
        const at = {x: round(x), y: round(y), 'text-anchor': anchor, 'dominant-baseline': 'central'};
        add('text', {...at, fill, ...font}, words);
      },
      clipped(x, y, width, height, draw) {
        const [outer, id] = [into, `clip-${(clips += 1)}`];
        const group = element('g', {'clip-path': `url(#${id})`});
        outer.append(element('clipPath', {id}, element('rect', {x, y, width, height})), group);
        into = group;
        draw();
        into = outer;
      },
    };
  }

  // The patterns of all kinds as SVG, pixel for pixel what the screen has; fill: url(#trace-kind-0) and so on.
  function patterns(colours) {
    const size = {width: TILE, height: TILE};
    const made = inks(colours).map(({full, pale}, kind) => {
      let cells = '';
      for (let i = 0; i < TILE * TILE; i++) {
        const [x, y] = [i % TILE, Math.floor(i / TILE)];
        if (PATTERNS[kind](x, y)) cells += `M${x} ${y}h1v1h-1z`;
      }
      const ground = element('rect', {...size, fill: pale});
      const figure = element('path', {d: cells, fill: full, 'shape-rendering': 'crispEdges'});
      return element('pattern', {id: `trace-kind-${kind}`, ...size, patternUnits: 'userSpaceOnUse'}, ground, figure);
    });
    return element('defs', {}, ...made);
  }

  // Kinds in small, one beside the other, for legends and tables: parts [[kind, width], …].
  function swatch(parts, height, at = {}) {
    const width = parts.reduce((sum, [, part]) => sum + part, 0);
    const svg = element('svg', {width, height, class: 'trace-swatch', 'aria-hidden': true, ...at});
    let x = 0;
    for (const [kind, part] of parts) {
      const isSend = kind === traceModel.SEND; // a strip at the top, as in the rows
      const full = height * (isSend ? 0.25 : traceBars.HEIGHT[kind]);
      const box = {x, y: isSend ? 0 : height - full, width: part, height: full};
      svg.append(element('rect', {...box, fill: `url(#trace-kind-${kind})`}));
      x += part;
    }
    return svg;
  }

  return {TILE, inks, mix, pixelPen, canvasPen, svgPen, patterns, element, swatch};
})();
