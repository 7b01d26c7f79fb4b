'use strict';

// What is around the views: tabs, language, theme, export and help. A view registers itself with
//   ringtree.view(name, {mount(element, data, shell) -> {redraw(), keys?, help?, notes?, svg?()}})
// and is mounted when it is first shown, so that its element has a size. See docs/pages.md.
const ringtree = (() => {
  const definitions = {};
  const mounted = {};
  const listeners = [];
  const stats = {frames: []};
  const byId = (id) => document.getElementById(id);
  let page = null;
  let language = 0;
  let current = '';
  let resolved = {};

  const TYPES = {int8: Int8Array, int16: Int16Array, int32: Int32Array, float64: Float64Array};

  // A typed array; a plain number stands for `length` equal values.
  function decode(column, length = 1) {
    if (typeof column === 'number') {
      return (column === (column | 0) ? new Int32Array(length) : new Float64Array(length)).fill(column);
    }
    const text = atob(column.base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    return new TYPES[column.type](bytes.buffer);
  }

  // {name} is a parameter; {name|round|rounds} is one with the word for one or for many.
  function t(key, params = {}) {
    return page.texts[key][language].replace(/\{(\w+)(?:\|(\w+)\|(\w+))?\}/g, (_, name, one, many) =>
      one ? `${params[name]} ${`${params[name]}` === '1' ? one : many}` : params[name],
    );
  }

  // data-t is an element's text, data-t-label what it is called (its tooltip, and for screen readers).
  function translate(root) {
    for (const element of root.querySelectorAll('[data-t]')) element.textContent = t(element.dataset.t);
    for (const element of root.querySelectorAll('[data-t-label]')) {
      element.title = t(element.dataset.tLabel);
      element.setAttribute('aria-label', element.title);
    }
  }

  // The values that the theme gives to the custom properties --NAME, for canvases and exported pictures.
  const colours = new Proxy(
    {},
    {
      get(_, name) {
        if (!(name in resolved)) {
          resolved[name] = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
        }
        return resolved[name];
      },
    },
  );

  function changed() {
    resolved = {};
    for (const listen of listeners) listen();
    if (current) mounted[current].redraw();
  }

  function setLanguage(index) {
    language = index;
    document.documentElement.lang = ['en', 'zh-CN'][index];
    translate(document);
    changed();
  }

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    changed();
  }

  function toggleTheme() {
    setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  }

  function download(name, blob) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const shell = {
    t,
    translate,
    decode,
    colours,
    download,
    stats,
    onChange: (listen) => listeners.push(listen),
    number: (value) => value.toLocaleString(document.documentElement.lang),
    get language() {
      return document.documentElement.lang;
    },
    get zoom() {
      return parseFloat(getComputedStyle(document.documentElement).fontSize) / 14.4;
    }, // larger on large screens
    get theme() {
      return document.documentElement.dataset.theme;
    },
  };

  // -- tabs

  function addView(name) {
    const tab = document.createElement('button');
    Object.assign(tab, {type: 'button', id: `tab-${name}`, onclick: () => show(name)});
    tab.dataset.t = `${name}.name`;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', `view-${name}`);
    byId('tabs').append(tab);
    const section = document.createElement('section');
    Object.assign(section, {id: `view-${name}`, className: `view view-${name}`, hidden: true});
    section.setAttribute('role', 'tabpanel');
    section.setAttribute('aria-labelledby', tab.id);
    byId('views').append(section);
  }

  function show(name) {
    current = name;
    for (const other of page.views) {
      byId(`view-${other}`).hidden = other !== name;
      byId(`tab-${other}`).setAttribute('aria-selected', other === name);
      byId(`tab-${other}`).tabIndex = other === name ? 0 : -1;
    }
    if (!(name in mounted)) {
      const section = byId(`view-${name}`);
      mounted[name] = definitions[name].mount(section, page.data[name], shell);
      translate(section);
    }
    mounted[name].redraw();
    for (const id of ['export-svg', 'export-png']) byId(id).disabled = !mounted[name].svg;
  }

  function stepTab(event) {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by) return;
    event.stopPropagation();
    const views = page.views;
    show(views[(views.indexOf(current) + by + views.length) % views.length]);
    byId(`tab-${current}`).focus();
  }

  // -- export

  const fileName = () => `${page.title}-${current}`.replace(/[^\p{L}\p{N}_.-]+/gu, '_').slice(0, 80);

  function picture() {
    const svg = mounted[current].svg();
    svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    return new Blob([new XMLSerializer().serializeToString(svg)], {type: 'image/svg+xml'});
  }

  function exportPng() {
    const image = new Image();
    const url = URL.createObjectURL(picture());
    image.onload = () => {
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      canvas.toBlob((blob) => download(`${fileName()}.png`, blob));
    };
    image.src = url;
  }

  // -- help and keys

  function openHelp() {
    const view = mounted[current];
    const row = ([keys, text]) => {
      const tr = document.createElement('tr');
      tr.insertCell().append(
        ...keys.split(' ').map((key) => {
          const kbd = document.createElement('kbd');
          kbd.textContent = key;
          return kbd;
        }),
      );
      tr.insertCell().textContent = t(text);
      return tr;
    };
    const shared = [
      ['D', 'shell.theme_keys'],
      ['?', 'shell.help_keys'],
    ];
    byId('help-keys').replaceChildren(...[...(view.help || []), ...shared].map(row));
    byId('help-notes').replaceChildren(
      ...(view.notes || []).map((key) => {
        const p = document.createElement('p');
        p.textContent = t(key);
        return p;
      }),
    );
    byId('help-dialog').showModal();
  }

  // A control that has the focus keeps the keys that it understands itself; a slider with data-view-keys leaves them.
  function isTaken(event) {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || byId('help-dialog').open) return true;
    if (target.matches('button, summary, [role=tab]')) return event.key === ' ' || event.key === 'Enter';
    if (target.matches('input[type=range]'))
      return !('viewKeys' in target.dataset) && /^(Arrow|Home|End|Page)/.test(event.key);
    return target.matches('input, select, textarea');
  }

  function onKey(event) {
    if (isTaken(event)) return;
    const keys = {d: toggleTheme, D: toggleTheme, '?': openHelp, ...mounted[current].keys};
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key](event);
  }

  function start() {
    page = JSON.parse(byId('data').textContent);
    page.views.forEach(addView);
    byId('tabs').hidden = page.views.length < 2;
    byId('tabs').addEventListener('keydown', stepTab);
    byId('language').onclick = () => setLanguage(1 - language);
    byId('theme').onclick = toggleTheme;
    byId('export-svg').onclick = () => download(`${fileName()}.svg`, picture());
    byId('export-png').onclick = exportPng;
    byId('help').onclick = openHelp;
    document.addEventListener('keydown', onKey);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const follow = () => setTheme(dark.matches ? 'dark' : 'light');
    dark.addEventListener('change', follow);
    follow();
    setLanguage(navigator.language.startsWith('zh') ? 1 : 0);
    const asked = location.hash.slice(1);
    show(page.views.includes(asked) ? asked : page.views[0]);
    let resized = 0;
    addEventListener('resize', () => {
      cancelAnimationFrame(resized);
      resized = requestAnimationFrame(() => mounted[current].redraw());
    });
  }

  // make('td.number', {title}, …children): an element with classes, properties, data-* and children.
  function make(what, properties = {}, ...children) {
    const [tag, ...classes] = what.split('.');
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(' ');
    const {data = {}, ...rest} = properties;
    Object.assign(element, rest);
    Object.assign(element.dataset, data);
    element.append(...children);
    return element;
  }

  return {
    view: (name, definition) => {
      definitions[name] = definition;
    },
    make,
    start,
    stats,
    shell,
  };
})();
