'use strict';

// Which part of the time is shown: state.start_s to state.end_s, within the whole. `changed()` follows every change.
function traceWindow(state, total_s, changed) {
  const LEAST_S = 1e-8; // the narrowest

  function show(start_s, end_s) {
    const width_s = Math.min(total_s, Math.max(LEAST_S, end_s - start_s));
    state.start_s = Math.max(0, Math.min(total_s - width_s, start_s));
    state.end_s = state.start_s + width_s;
    changed();
  }

  // `factor` under 1 zooms in; what is at `at` (0 left, 1 right) stays where it is.
  function zoom(factor, at = 0.5) {
    const width_s = state.end_s - state.start_s;
    const next_s = Math.min(total_s, Math.max(LEAST_S, width_s * factor));
    const fixed_s = state.start_s + width_s * at;
    show(fixed_s - next_s * at, fixed_s + next_s * (1 - at));
  }

  function pan(share) {
    const by_s = (state.end_s - state.start_s) * share;
    show(state.start_s + by_s, state.end_s + by_s);
  }

  // An event in the middle, and about as much again on both sides; its message's other end too.
  function zoomTo({trace, event}) {
    const ends = [event, trace.other[event]].filter((i) => i >= 0);
    const start_s = Math.min(...ends.map((i) => trace.start_s[i]));
    const end_s = Math.max(...ends.map((i) => trace.end_s[i]));
    const margin_s = Math.max((end_s - start_s) * 0.75, LEAST_S);
    show(start_s - margin_s, end_s + margin_s);
  }

  // As wide as it is, to where the event is, if it is not in sight.
  function moveTo({trace, event}) {
    const width_s = state.end_s - state.start_s;
    const [start_s, end_s] = [trace.start_s[event], trace.end_s[event]];
    if (end_s < state.start_s || start_s > state.end_s) show(start_s - width_s / 2, start_s + width_s / 2);
  }

  return {show, zoom, pan, zoomTo, moveTo, all: () => show(0, total_s)};
}
