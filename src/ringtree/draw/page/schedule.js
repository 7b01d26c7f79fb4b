'use strict';

ringtree.view('schedule', {
  mount(element, data) {
    const words = document.createElement('p');
    element.append(words);
    return {redraw() { words.textContent = `${data.name}: ${data.ranks}`; }};
  },
});
