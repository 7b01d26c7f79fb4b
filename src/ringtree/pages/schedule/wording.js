'use strict';

// How ranks, chunks and contributions are put into words. Numbers and dashes are the same in both languages.

/** @param {Contents} contents @param {number} rank */
const rankName = (contents, rank) => (rank < contents.ranks ? `${rank}` : `s${rank - contents.ranks}`);

/** @param {number} first @param {number} count */
const chunkWords = (first, count) => (count > 1 ? `${first}–${first + count - 1}` : `${first}`);

/** 0, 1, 2, 3, 7 as "0–3, 7"; two that are neighbours stay two. @param {number[]} numbers */
function spans(numbers) {
  /** @type {[first: number, last: number][]} */
  const runs = [];
  for (const n of numbers) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`)).join(', ');
}

/** Of a buffer that is not the only one; by buffer. */
const OF_BUFFER = ['', 'schedule.of_input', 'schedule.of_output', 'schedule.of_scratch'];

/**
 * The chunks of one transfer, with the buffers where there are several.
 * @param {Contents} contents @param {number} row @param {Translate} t
 */
function transferChunks({rows}, row, t) {
  /** @param {number} buffer @param {number} first */
  const side = (buffer, first) => {
    const chunk = chunkWords(first, rows.count[row]);
    return OF_BUFFER[buffer] ? t(OF_BUFFER[buffer], {chunk}) : chunk;
  };
  const from = side(rows.source_buffer[row], rows.source_chunk[row]);
  const to = side(rows.target_buffer[row], rows.target_chunk[row]);
  return from === to ? from : `${from} → ${to}`;
}

/**
 * What is in a cell: whose contributions, and which are missing.
 * @param {Contents} contents @param {number} cell @param {Translate} t
 */
function cellWords(contents, cell, t) {
  const state = contents.state[cell];
  if (state === Contents.EMPTY) return t('schedule.cell_empty');
  if (state === Contents.WRONG) return t('schedule.cell_spoiled');
  const origins = contents.origins(cell);
  const of = {chunk: contents.position(cell), ranks: spans(origins)};
  if (!contents.reduces) return t('schedule.cell_copy', of);
  const here = contents.rankOf[cell];
  const missing = d3.range(contents.contributors(here)).filter((rank) => !origins.includes(rank));
  const [alone, part] =
    origins.length === 1
      ? ['schedule.cell_alone', 'schedule.cell_own']
      : ['schedule.cell_whole', 'schedule.cell_sum'];
  return t(missing.length ? part : alone, {...of, missing: spans(missing)});
}

/** How far a rank is. @param {Contents} contents @param {number} rank @param {Translate} t */
function rankWords(contents, rank, t) {
  const name = {rank: rankName(contents, rank)};
  if (rank >= contents.ranks) return t('schedule.switch', name);
  const owed = contents.promised.owedCount[rank];
  if (!owed) return t('schedule.rank_owed_nothing', name);
  const percent = Math.floor(100 * contents.progress(rank).share);
  return t('schedule.rank', {...name, right: contents.right[rank], owed, percent});
}

/** One transfer in a line. @param {Contents} contents @param {number} row @param {Translate} t */
function transferWords(contents, row, t) {
  const {rows} = contents;
  return t('schedule.transfer', {
    round: rows.round[row],
    from: rankName(contents, rows.source[row]),
    to: rankName(contents, rows.target[row]),
    chunks: transferChunks(contents, row, t),
    what: transferKind(contents, row, t),
  });
}

/** @param {Contents} contents @param {number} row @param {Translate} t */
function transferKind({rows}, row, t) {
  if (rows.reduce[row]) return t('schedule.add');
  return t(rows.source[row] === rows.target[row] ? 'schedule.copy' : 'schedule.store');
}
