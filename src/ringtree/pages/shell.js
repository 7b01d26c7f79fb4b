'use strict';

// What is around the views: tabs, language, theme, export and help. A view registers itself with
//   ringtree.view(name, {mount(element, data, shell) -> {redraw(), keys?, help?, notes?, svg?()}})
// and is mounted when it is first shown, so that its element has a size. See docs/pages.md.
/** @typedef {typeof ringtree.shell} Shell */
/** @typedef {(key: string, params?: Record<string, string | number>) => string} Translate */
/** @typedef {Int8Array | Int16Array | Int32Array | Float64Array} Numbers */
/**
 * `keys` by KeyboardEvent.key, of letters the small ones, for a capital does the same; `help` as [keys, text],
 * `notes` as texts, `svg` the picture to save.
 * @typedef {{
 *   redraw(): void, keys?: Record<string, (event: KeyboardEvent) => void>, help?: string[][],
 *   notes?: string[], svg?: () => SVGElement,
 * }} View
 */
/** @template {ViewName} V @typedef {(element: HTMLElement, data: PageData[V], shell: Shell) => View} Mount */

const ringtree = (() => {
  const {make, find} = elements;

  /** @type {Partial<Record<ViewName, Mount<any>>>} */
  const definitions = {};
  /** @type {Partial<Record<ViewName, View>>} */
  const mounted = {};
  /** @type {(() => void)[]} */
  const listeners = [];
  /** How long the page itself worked at each frame. */
  const stats = {frames_ms: /** @type {number[]} */ ([])};
  const root = document.documentElement;
  let language = 0;
  /** @type {Page} */
  let page;
  /** @type {View | undefined} */
  let current;
  /** @type {ViewName} */
  let shown;
  /** @type {Record<string, string>} */
  let resolved = {};

  const TYPES = {int8: Int8Array, int16: Int16Array, int32: Int32Array, float64: Float64Array};

  /** A typed array; a plain number stands for `length` equal values. @param {Column} column @returns {Numbers} */
  function decode(column, length = 1) {
    if (typeof column === 'number') {
      return (column === (column | 0) ? new Int32Array(length) : new Float64Array(length)).fill(column);
    }
    const text = atob(column.base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    return new TYPES[column.type](bytes.buffer);
  }

  /**
   * Columns of one length, those of `names` or all.
   * @template {string} N @param {Record<N, Column>} encoded @param {number} length @param {N[]} [names]
   */
  function columns(encoded, length, names = /** @type {N[]} */ (Object.keys(encoded))) {
    const decoded = names.map((name) => [name, decode(encoded[name], length)]);
    return /** @type {Record<N, Numbers>} */ (Object.fromEntries(decoded));
  }

  /** {name} is a parameter; {name|round|rounds} is one with the word for one or for many. @type {Translate} */
  function t(key, params = {}) {
    return page.texts[key][language].replace(/\{(\w+)(?:\|(\w+)\|(\w+))?\}/g, (_, name, one, many) =>
      one ? `${params[name]} ${`${params[name]}` === '1' ? one : many}` : `${params[name]}`,
    );
  }

  /**
   * data-t is an element's text, data-t-label what it is called (its tooltip, and for screen readers).
   * @param {ParentNode} parent
   */
  function translate(parent) {
    for (const element of parent.querySelectorAll('[data-t]')) {
      element.textContent = t(/** @type {string} */ (element.getAttribute('data-t')));
    }
    for (const element of parent.querySelectorAll('[data-t-label]')) {
      const words = t(/** @type {string} */ (element.getAttribute('data-t-label')));
      element.setAttribute('title', words);
      element.setAttribute('aria-label', words);
    }
  }

  /** The values that the theme gives to the custom properties --NAME, for canvases and exported pictures. */
  const colours = new Proxy(/** @type {Record<string, string>} */ ({}), {
    get: (_, /** @type {string} */ name) =>
      (resolved[name] ??= getComputedStyle(root).getPropertyValue(`--${name}`).trim()),
  });

  function changed() {
    resolved = {};
    for (const listen of listeners) listen();
    current?.redraw();
  }

  /** @param {number} index */
  function setLanguage(index) {
    language = index;
    root.lang = ['en', 'zh-CN'][index];
    translate(document);
    changed();
  }

  /** @param {string} name */
  function setTheme(name) {
    root.dataset.theme = name;
    changed();
  }

  const toggleTheme = () => setTheme(root.dataset.theme === 'dark' ? 'light' : 'dark');

  /** @param {string} name @param {Blob} blob */
  function download(name, blob) {
    const href = URL.createObjectURL(blob);
    make('a', {href, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  }

  const shell = {
    t,
    translate,
    decode,
    columns,
    colours,
    /** @param {() => void} listen */
    onChange: (listen) => listeners.push(listen),
    /** @param {number} value @param {Intl.NumberFormatOptions} [options] */
    number: (value, options) => value.toLocaleString(root.lang, options),
    /** Notes how long a frame's own work took, which began then. @param {number} began_ms */
    measure(began_ms) {
      stats.frames_ms.push(performance.now() - began_ms);
      if (stats.frames_ms.length > 4000) stats.frames_ms.splice(0, 2000);
    },
    get rem() {
      return parseFloat(getComputedStyle(root).fontSize);
    },
    /** More on large screens. */
    get zoom() {
      return shell.rem / 14.4;
    },
    get theme() {
      return root.dataset.theme;
    },
    get font() {
      return getComputedStyle(document.body).fontFamily;
    },
  };

  // -- tabs

  /** @param {ViewName} name */
  function addView(name) {
    const tab = make('button', {type: 'button', id: `tab-${name}`, role: 'tab', data: {t: `${name}.name`}});
    tab.onclick = () => show(name);
    tab.setAttribute('aria-controls', `view-${name}`);
    find('#tabs').append(tab);
    const section = make(`section.view.view-${name}`, {id: `view-${name}`, hidden: true, role: 'tabpanel'});
    section.setAttribute('aria-labelledby', tab.id);
    find('#views').append(section);
  }

  /** @param {ViewName} name */
  function show(name) {
    shown = name;
    for (const other of page.views) {
      const tab = find(`button#tab-${other}`);
      find(`#view-${other}`).hidden = other !== name;
      tab.ariaSelected = `${other === name}`;
      tab.tabIndex = other === name ? 0 : -1;
    }
    current = mounted[name] ??= mount(name);
    current.redraw();
    for (const id of ['export-svg', 'export-png']) find(`button#${id}`).disabled = !current.svg;
  }

  /** @param {ViewName} name @returns {View} */
  function mount(name) {
    const section = find(`#view-${name}`);
    const made = /** @type {Mount<any>} */ (definitions[name])(section, page.data[name], shell);
    translate(section);
    return made;
  }

  /** @param {KeyboardEvent} event */
  function stepTab(event) {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by) return;
    event.stopPropagation();
    const {views} = page;
    show(views[(views.indexOf(shown) + by + views.length) % views.length]);
    find(`button#tab-${shown}`).focus();
  }

  // -- export

  const fileName = () => `${page.title}-${shown}`.replace(/[^\p{L}\p{N}_.-]+/gu, '_').slice(0, 80);

  function picture() {
    const svg = current?.svg?.();
    if (!svg) throw new Error(`no picture of ${shown}`);
    svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    return new Blob([new XMLSerializer().serializeToString(svg)], {type: 'image/svg+xml'});
  }

  async function exportPng() {
    const image = new Image();
    image.src = URL.createObjectURL(picture());
    await image.decode();
    const canvas = make('canvas', {width: image.width * 2, height: image.height * 2});
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    canvas.toBlob((blob) => blob && download(`${fileName()}.png`, blob));
  }

  // -- help and keys

  function openHelp() {
    /** @param {string[]} line */
    const row = ([keys, text]) =>
      make('tr', {}, make('td', {}, ...keys.split(' ').map((key) => make('kbd', {}, key))), make('td', {}, t(text)));
    const shared = [['D', 'shell.theme_keys'], ['?', 'shell.help_keys']];
    find('#help-keys').replaceChildren(...[...(current?.help ?? []), ...shared].map(row));
    find('#help-notes').replaceChildren(...(current?.notes ?? []).map((key) => make('p', {}, t(key))));
    find('dialog#help-dialog').showModal();
  }

  /**
   * A control that has the focus keeps the keys that it understands itself; a slider with data-view-keys leaves them.
   * @param {KeyboardEvent} event
   */
  function isTaken(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || find('dialog#help-dialog').open) return true;
    if (target.matches('button, summary, [role=tab]')) return event.key === ' ' || event.key === 'Enter';
    if (target.matches('input[type=range]'))
      return !('viewKeys' in target.dataset) && /^(Arrow|Home|End|Page)/.test(event.key);
    return target.matches('input, select, textarea');
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (isTaken(event)) return;
    /** @type {Record<string, (event: KeyboardEvent) => void>} */
    const keys = {d: toggleTheme, '?': openHelp, ...current?.keys};
    // The help has capitals, and Caps Lock makes them.
    const key = event.key.length > 1 ? event.key : event.key.toLowerCase();
    if (!Object.hasOwn(keys, key)) return;
    event.preventDefault();
    keys[key](event);
  }

  function start() {
    page = JSON.parse(find('#data').textContent);
    page.views.forEach(addView);
    find('#tabs').hidden = page.views.length < 2;
    find('#tabs').addEventListener('keydown', stepTab);
    find('#language').onclick = () => setLanguage(1 - language);
    find('#theme').onclick = toggleTheme;
    find('#export-svg').onclick = () => download(`${fileName()}.svg`, picture());
    find('#export-png').onclick = exportPng;
    find('#help').onclick = openHelp;
    document.addEventListener('keydown', onKey);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const follow = () => setTheme(dark.matches ? 'dark' : 'light');
    dark.addEventListener('change', follow);
    follow();
    setLanguage(navigator.language.startsWith('zh') ? 1 : 0);
    const asked = page.views.find((name) => `#${name}` === location.hash);
    show(asked ?? page.views[0]);
    let resized = 0;
    addEventListener('resize', () => {
      cancelAnimationFrame(resized);
      resized = requestAnimationFrame(() => current?.redraw());
    });
  }

  /** @template {ViewName} V @param {V} name @param {{mount: Mount<V>}} definition */
  function view(name, {mount: by}) {
    definitions[name] = by;
  }

  return {view, start, stats, shell};
})();
