'use strict';

// Elements in one line, of HTML and of SVG, and what several views make of them.
/**
 * The contents of the tip beside the mouse.
 * @typedef {{title: string, source?: string, lines: [name: string, value: string][]}} TipContent
 */
const elements = (() => {
  /** @typedef {string | number | boolean | null | undefined} Value */
  /** @typedef {HTMLElementTagNameMap & {[tag: string]: HTMLElement}} Tags */
  /**
   * The type of the element that 'canvas.trace-bars' or 'button#help' names.
   * @template {string} W
   * @typedef {Tags[W extends `${infer T}.${string}` ? T : W extends `${infer T}#${string}` ? T : W]} Made
   */
  /**
   * @template {string} W
   * @typedef {Omit<Partial<Made<W>>, 'style'> & {style?: string, data?: Record<string, Value>}} Properties
   */

  /**
   * make('td.number', {title}, …children): an element with classes, properties, data-* and children.
   * @template {string} W @param {W} what @param {Properties<W>} [properties] @param {(Node | string)[]} children
   */
  function make(what, properties = /** @type {Properties<W>} */ ({}), ...children) {
    const [tag, ...classes] = what.split('.');
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(' ');
    const {data = {}, ...rest} = properties;
    Object.assign(element, rest);
    Object.assign(element.dataset, data);
    element.append(...children);
    return /** @type {Made<W>} */ (element);
  }

  /**
   * draw('circle.step', {cx, cy, r}, …children): an element of a picture. What is null or undefined is left out.
   * @template {string} W @param {W} what @param {Record<string, Value>} attributes @param {(Node | string)[]} children
   */
  function draw(what, attributes, ...children) {
    const [tag, ...classes] = what.split('.');
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    if (classes.length) element.setAttribute('class', classes.join(' '));
    for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, `${value}`);
    element.append(...children);
    return /** @type {SVGElement} */ (element);
  }

  /** The first below `root` that 'button#help' selects, which is there. @template {string} S @param {S} selector */
  const find = (selector, /** @type {ParentNode} */ root = document) =>
    /** @type {Made<S>} */ (root.querySelector(selector));

  /**
   * Heads are words, or elements; with a caption above where it has one.
   * @param {string} what @param {(HTMLElement | string)[]} heads @param {HTMLElement[]} rows @param {string} [caption]
   */
  function table(what, heads, rows, caption) {
    const cells = heads.map((head) => (typeof head === 'string' ? make('th', {scope: 'col'}, head) : head));
    const top = caption === undefined ? [] : [make('caption', {}, caption)];
    return make(what, {}, ...top, make('thead', {}, make('tr', {}, ...cells)), make('tbody', {}, ...rows));
  }

  /** A box of that class for it, in the window; at the end of `root`. @param {HTMLElement} root @param {string} name */
  function tooltip(root, name) {
    const box = make(`div.tip.${name}`, {hidden: true, role: 'tooltip'});
    root.append(box);
    return {
      /** @param {TipContent} content @param {MouseEvent} event */
      show({title, source, lines}, {clientX: x, clientY: y}) {
        const rows = lines.map((line) => make('tr', {}, make('th', {}, line[0]), make('td', {}, line[1])));
        const titles = [make('strong', {}, title), ...(source ? [make('span', {}, source)] : [])];
        box.replaceChildren(...titles, make('table', {}, ...rows));
        box.hidden = false;
        const left = x + 18 + box.offsetWidth > innerWidth ? x - 14 - box.offsetWidth : x + 18;
        const top = Math.min(y + 14, innerHeight - box.offsetHeight - 8);
        Object.assign(box.style, {left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px`});
      },
      hide() {
        box.hidden = true;
      },
    };
  }

  /**
   * Buttons side by side, of which one is chosen.
   * @param {string | null} label
   * @param {{id: string, words: string, isOn: boolean, choose: () => void, disabled?: boolean}[]} entries
   */
  function choices(label, ...entries) {
    const button = entries.map(({id, words, isOn, choose, disabled = false}) =>
      make('button', {type: 'button', id, ariaPressed: `${isOn}`, disabled, onclick: choose}, words),
    );
    return make('div.choices', {role: 'group', ariaLabel: label}, ...button);
  }

  /**
   * New children, of which that with the same id keeps the focus.
   * @param {HTMLElement} element @param {Node[]} children
   */
  function refill(element, ...children) {
    const id = element.contains(document.activeElement) ? document.activeElement?.id : '';
    element.replaceChildren(...children);
    if (id) document.getElementById(id)?.focus();
  }

  /**
   * A copy of a picture, without what a pointer has brought out, on the page's colour.
   * @param {SVGElement} svg @param {Shell} shell
   */
  function standalone(svg, {colours}) {
    const copy = /** @type {SVGElement} */ (svg.cloneNode(true));
    for (const guide of copy.querySelectorAll('.guide')) guide.remove();
    for (const line of copy.querySelectorAll('.faded')) line.classList.remove('faded');
    copy.prepend(draw('rect', {width: '100%', height: '100%', fill: colours.page}));
    return copy;
  }

  /** The room inside an element's padding, in pixels. @param {HTMLElement} element */
  const roomIn = (element) => element.clientWidth - 2 * parseFloat(getComputedStyle(element).paddingLeft);

  return {make, draw, find, table, tooltip, choices, refill, standalone, roomIn};
})();
