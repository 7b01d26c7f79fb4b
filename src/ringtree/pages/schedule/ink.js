'use strict';

// Two inks for the same picture: on a canvas while it moves, and as SVG to be saved. Shapes are drawn by functions
// that call the path methods of a canvas, which d3.path has too.
/** @typedef {CanvasRenderingContext2D | d3.Path} Pencil */
/** @typedef {{fill?: string, stroke?: string, width?: number, alpha?: number}} Style */
/** @typedef {{fill: string, size: number, weight?: number, anchor?: 'start' | 'middle' | 'end'}} Letters */
/**
 * @typedef {{
 *   shape(trace: (p: Pencil) => void, style: Style): void,
 *   text(words: string, x: number, y: number, style: Letters): void,
 * }} Ink
 */
const {make, draw, find} = elements;

class CanvasInk {
  /** `zoom` is how many CSS pixels a unit of the picture is. @param {HTMLCanvasElement} canvas @param {number} zoom */
  constructor(canvas, zoom) {
    this.canvas = canvas;
    this.zoom = zoom;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    this.font = getComputedStyle(document.body).fontFamily;
  }

  /** Width and height in units of the picture. @returns {[number, number]} */
  get size() {
    return [this.canvas.clientWidth / this.zoom, this.canvas.clientHeight / this.zoom];
  }

  // Makes the canvas as sharp as the screen, and empty.
  clear() {
    const {canvas, context} = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const sharp = [width, height].map((length) => Math.round(length * devicePixelRatio));
    if (canvas.width !== sharp[0] || canvas.height !== sharp[1]) [canvas.width, canvas.height] = sharp;
    context.resetTransform();
    context.clearRect(0, 0, canvas.width, canvas.height);
    const scale = devicePixelRatio * this.zoom;
    context.scale(scale, scale);
    context.lineCap = 'round';
  }

  /** @param {(p: Pencil) => void} trace @param {Style} style */
  shape(trace, {fill, stroke, width = 1, alpha = 1}) {
    const {context} = this;
    context.globalAlpha = alpha;
    context.beginPath();
    trace(context);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.stroke();
    }
  }

  /** @param {string} words @param {number} x @param {number} y @param {Letters} style */
  text(words, x, y, {fill, size, weight = 400, anchor = 'middle'}) {
    const {context} = this;
    context.globalAlpha = 1;
    context.font = `${weight} ${size}px ${this.font}`;
    context.textAlign = anchor === 'middle' ? 'center' : anchor;
    context.textBaseline = 'middle';
    context.fillStyle = fill;
    context.fillText(words, x, y + size * 0.05);
  }
}

class SvgInk {
  /** @param {number} width @param {number} height @param {string} background @param {string} font */
  constructor(width, height, background, font) {
    this.svg = draw(
      'svg',
      {width, height, viewBox: `0 0 ${width} ${height}`, 'font-family': font},
      draw('rect', {width, height, fill: background}),
    );
    this.into = this.svg;
  }

  /** What follows is drawn relative to this point. @param {number} x @param {number} y */
  move(x, y) {
    this.into = draw('g', {transform: `translate(${x},${y})`});
    this.svg.append(this.into);
  }

  /** @param {(p: Pencil) => void} trace @param {Style} style */
  shape(trace, {fill = 'none', stroke, width = 1, alpha = 1}) {
    const path = d3.path();
    trace(path);
    const line = stroke && {stroke, 'stroke-width': width, 'stroke-linecap': 'round'};
    this.into.append(draw('path', {d: `${path}`, fill, ...line, opacity: alpha < 1 ? alpha : null}));
  }

  /** @param {string} words @param {number} x @param {number} y @param {Letters} style */
  text(words, x, y, {fill, size, weight = 400, anchor = 'middle'}) {
    const font = {'font-size': size, 'font-weight': weight, 'text-anchor': anchor, 'dominant-baseline': 'central'};
    this.into.append(draw('text', {x, y: y + size * 0.05, fill, ...font}, words));
  }
}
