'use strict';

// What the timeline is drawn with: pixels for the events on the screen, a canvas for what lies over them, and the same
// strokes as SVG for the export. Kinds differ in colour, pattern and height.
/** @typedef {[x: number, y: number]} XY */
/** @typedef {{stroke: string, width?: number, dash?: number[]}} Outline */
/** @typedef {{fill: string, size?: number, anchor?: 'start' | 'middle' | 'end', weight?: number}} Letters */
/**
 * Draws on a canvas, or into a picture.
 * @typedef {{
 *   rect(x: number, y: number, width: number, height: number, style: Partial<Outline> & {fill?: string}): void,
 *   line(points: XY[], outline: Outline): void, area(points: XY[], fill: string): void,
 *   text(x: number, y: number, words: string, style: Letters): void,
 *   clipped(x: number, y: number, width: number, height: number, drawIt: () => void): void,
 * }} Pen
 */

const tracePens = (() => {
  const TILE = 8; // pixels after which every pattern repeats
  const isSolid = () => true;
  /**
   * By kind: is the pixel (x, y) of the tile in the kind's full colour, or in its pale one?
   * @type {((x: number, y: number) => boolean)[]}
   */
  const PATTERNS = [
    isSolid, // copy
    (x, y) => (x + y) % 4 !== 0, // reduce: dense stripes
    isSolid, // send
    (x, y) => (x - y + TILE) % 4 === 0, // wait: sparse stripes, in the other direction
    (x) => x % 4 < 2, // stall: upright bars
    (_, y) => y % 4 !== 0, // compute: lying bars
  ];
  const NAMES = ['blue', 'orange', 'green', 'faint', 'vermillion', 'sky'];

  /** @param {string} hex */
  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  /** @param {string} a @param {string} b @param {number} share */
  function mix(a, b, share) {
    const [from, to] = [channels(a), channels(b)];
    const parts = from.map((part, i) => Math.round(part * (1 - share) + to[i] * share));
    return `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
  }

  /** The two colours of every kind in the theme. @param {Shell['colours']} colours */
  function inks(colours) {
    return NAMES.map((name, kind) => {
      const full = colours[name];
      const share = kind === traceModel.WAIT ? 0.78 : 0.6;
      return {full, pale: mix(full, colours.surface, share)};
    });
  }

  /** @param {string} hex */
  function packed(hex) {
    const [red, green, blue] = channels(hex);
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }

  /** @param {HTMLCanvasElement} canvas @param {CanvasRenderingContext2DSettings} [settings] */
  const contextOf = (canvas, settings) =>
    /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', settings));

  /**
   * Rectangles as pixels, in memory: a million of them cost less than a thousand calls of a canvas.
   * @param {HTMLCanvasElement} canvas @param {number} ratio @param {Shell['colours']} colours
   */
  function pixelPen(canvas, ratio, colours) {
    const context = contextOf(canvas, {alpha: false});
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
      /** @param {number} left @param {number} right @param {number} top @param {number} bottom */
      blank(left, right, top, bottom) {
        for (let y = Math.max(0, top); y < Math.min(bottom, canvas.height); y++) {
          pixels.fill(ground, y * width + left, y * width + right);
        }
      },
      /**
       * `shift`: how far the pattern has moved to the left with the events it is on.
       * @param {number} kind @param {number} left @param {number} right @param {number} top @param {number} bottom
       * @param {number} shift
       */
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

  /** @param {CanvasRenderingContext2D} context @returns {Pen} */
  function canvasPen(context) {
    /** @param {Outline} outline */
    const style = ({stroke, width = 1, dash = []}) => {
      [context.strokeStyle, context.lineWidth] = [stroke, width];
      context.setLineDash(dash);
      context.lineJoin = 'round';
    };
    /** @param {XY[]} points */
    const trace = (points) => {
      context.beginPath();
      points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    };
    return {
      rect(x, y, width, height, {fill, stroke, ...outline}) {
        if (fill) context.fillStyle = fill;
        if (fill) context.fillRect(x, y, width, height);
        if (stroke) style({stroke, ...outline});
        if (stroke) context.strokeRect(x, y, width, height);
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
      clipped(x, y, width, height, drawIt) {
        context.save();
        context.beginPath();
        context.rect(x, y, width, height);
        context.clip();
        drawIt();
        context.restore();
      },
    };
  }

  /** @param {number} value */
  const round = (value) => Math.round(value * 100) / 100;
  /** @param {XY[]} points */
  const join = (points) => points.map(([x, y]) => `${round(x)},${round(y)}`).join(' ');

  /** @param {SVGElement} root @returns {Pen} */
  function svgPen(root) {
    let into = root;
    let clips = 0;
    /** @type {(...what: Parameters<typeof draw>) => void} */
    const add = (...what) => into.append(draw(...what));
    /** @param {Outline} outline */
    const outlined = ({stroke, width = 1, dash}) => ({
      stroke, 'stroke-width': width, 'stroke-dasharray': dash?.join(' '), 'stroke-linejoin': 'round',
    });
    return {
      rect(x, y, width, height, {fill = 'none', stroke, ...outline}) {
        const drawn = stroke ? outlined({stroke, ...outline}) : {};
        add('rect', {x: round(x), y: round(y), width: round(width), height: round(height), fill, ...drawn});
      },
      line: (points, outline) => add('polyline', {points: join(points), fill: 'none', ...outlined(outline)}),
      area: (points, fill) => add('polygon', {points: join(points), fill}),
      text(x, y, words, {fill, size = 12, anchor = 'start', weight = 400}) {
        const font = {'font-size': size, 'font-weight': weight, 'font-family': 'system-ui, sans-serif'};
        const at = {x: round(x), y: round(y), 'text-anchor': anchor, 'dominant-baseline': 'central'};
        add('text', {...at, fill, ...font}, words);
      },
      clipped(x, y, width, height, drawIt) {
        const [outer, id] = [into, `clip-${(clips += 1)}`];
        into = draw('g', {'clip-path': `url(#${id})`});
        outer.append(draw('clipPath', {id}, draw('rect', {x, y, width, height})), into);
        drawIt();
        into = outer;
      },
    };
  }

  /**
   * The patterns of all kinds as SVG, pixel for pixel what the screen has; fill: url(#trace-kind-0) and so on.
   * @param {Shell['colours']} colours
   */
  function patterns(colours) {
    const size = {width: TILE, height: TILE};
    const made = inks(colours).map(({full, pale}, kind) => {
      let cells = '';
      for (let i = 0; i < TILE * TILE; i++) {
        const [x, y] = [i % TILE, Math.floor(i / TILE)];
        if (PATTERNS[kind](x, y)) cells += `M${x} ${y}h1v1h-1z`;
      }
      const ground = draw('rect', {...size, fill: pale});
      const figure = draw('path', {d: cells, fill: full, 'shape-rendering': 'crispEdges'});
      return draw('pattern', {id: `trace-kind-${kind}`, ...size, patternUnits: 'userSpaceOnUse'}, ground, figure);
    });
    return draw('defs', {}, ...made);
  }

  /**
   * Kinds in small, one beside the other, for legends and tables.
   * @param {[kind: number, width: number][]} parts @param {number} height @param {Record<string, number>} [at]
   */
  function swatch(parts, height, at) {
    const width = d3.sum(parts, ([, part]) => part);
    const svg = draw('svg.trace-swatch', {width, height, 'aria-hidden': true, ...at});
    let x = 0;
    for (const [kind, part] of parts) {
      const isSend = kind === traceModel.SEND; // a strip at the top, as in the rows
      const full = height * (isSend ? 0.25 : traceBars.HEIGHT[kind]);
      const box = {x, y: isSend ? 0 : height - full, width: part, height: full};
      svg.append(draw('rect', {...box, fill: `url(#trace-kind-${kind})`}));
      x += part;
    }
    return svg;
  }

  return {mix, contextOf, pixelPen, canvasPen, svgPen, patterns, swatch};
})();
