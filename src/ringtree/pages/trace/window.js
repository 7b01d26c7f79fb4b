'use strict';

/**
 * Which part of the time is shown: state.start_s to state.end_s, within the whole. `changed()` follows every change.
 * @param {Interval} state @param {number} total_s @param {() => void} changed
 */
function traceWindow(state, total_s, changed) {
  const LEAST_S = 1e-8; // the narrowest

  /** @param {number} start_s @param {number} end_s */
  function show(start_s, end_s) {
    const width_s = Math.min(total_s, Math.max(LEAST_S, end_s - start_s));
    state.start_s = Math.max(0, Math.min(total_s - width_s, start_s));
    state.end_s = state.start_s + width_s;
    changed();
  }

  /** `factor` under 1 zooms in; what is at `at` (0 left, 1 right) stays where it is. @param {number} factor */
  function zoom(factor, at = 0.5) {
    const width_s = state.end_s - state.start_s;
    const next_s = Math.min(total_s, Math.max(LEAST_S, width_s * factor));
    const fixed_s = state.start_s + width_s * at;
    show(fixed_s - next_s * at, fixed_s + next_s * (1 - at));
  }

  /** @param {number} share */
  function pan(share) {
    const by_s = (state.end_s - state.start_s) * share;
    show(state.start_s + by_s, state.end_s + by_s);
  }

  /** An event in the middle, and about as much again on both sides; its message's other end too. @param {Item} item */
  function zoomTo({trace, event}) {
    const ends = [event, trace.other[event]].filter((i) => i >= 0);
    const start_s = Math.min(...ends.map((i) => trace.start_s[i]));
    const end_s = Math.max(...ends.map((i) => trace.end_s[i]));
    const margin_s = Math.max((end_s - start_s) * 0.75, LEAST_S);
    show(start_s - margin_s, end_s + margin_s);
  }

  /** As wide as it is, to where the event is, if it is not in sight. @param {Item} item */
  function moveTo({trace, event}) {
    const width_s = state.end_s - state.start_s;
    const [start_s, end_s] = [trace.start_s[event], trace.end_s[event]];
    if (end_s < state.start_s || start_s > state.end_s) show(start_s - width_s / 2, start_s + width_s / 2);
  }

  return {show, zoom, pan, zoomTo, moveTo, all: () => show(0, total_s)};
}

/** 1, 2 or 5 times a power of ten, the least that is not under `least`. @param {number} least */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10);
}

/**
 * The ticks of a window. Where the numbers would be long, they count from `base`.
 * @param {Interval} window @param {number} most
 */
function traceTicks({start_s, end_s}, most) {
  const step_s = niceStep(Math.max((end_s - start_s) / most, 1e-13));
  const isLong = end_s / step_s >= 1e5;
  const coarse_s = niceStep((end_s - start_s) * 2);
  const base_s = isLong ? Math.floor(start_s / coarse_s) * coarse_s : 0;
  const first = Math.ceil(start_s / step_s - 1e-9);
  const last = Math.floor((end_s / step_s) * (1 + 1e-15));
  const ticks = d3.range(first, last + 1).map((i) => ({
    at_s: i * step_s,
    text: `${isLong ? '+' : ''}${figures.moment(i * step_s - base_s, isLong ? step_s : end_s, step_s)}`,
  }));
  return {base: isLong ? figures.moment(base_s, Math.max(base_s, coarse_s), coarse_s) : '', ticks};
}
