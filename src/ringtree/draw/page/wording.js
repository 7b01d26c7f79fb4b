'use strict';

// How ranks, chunks and contributions are put into words. Numbers and dashes are the same in both languages.

const rankName = (contents, rank) => (rank < contents.ranks ? `${rank}` : `s${rank - contents.ranks}`);

const chunkWords = (first, count, dash) => (count > 1 ? `${first}${dash}${first + count - 1}` : `${first}`);

// 0, 1, 2, 3, 7 as "0–3, 7"; two that are neighbours stay two.
function spans(numbers) {
  const runs = [];
  for (const n of numbers) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`)).join(', ');
}

// The chunks of one transfer, with the buffers where there are several.
function transferChunks(contents, row) {
  const {rows} = contents;
  const side = (buffer, chunk) => {
    const plain = buffer === 0 || contents.inPlace && buffer !== 3;
    return (plain ? '' : `${Contents.BUFFERS[buffer]} `) + chunkWords(chunk, rows.count[row], '–');
  };
  const from = side(rows.source_buffer[row], rows.source_chunk[row]);
  const to = side(rows.target_buffer[row], rows.target_chunk[row]);
  return from === to ? from : `${from} → ${to}`;
}

// What is in a cell: whose contributions, and which are missing.
function cellWords(contents, cell, t) {
  const state = contents.state[cell];
  if (state === Contents.EMPTY) return t('schedule.cell_empty');
  if (state === Contents.WRONG) return t('schedule.cell_spoiled');
  const origins = contents.origins(cell);
  const of = {chunk: contents.position(cell), ranks: spans(origins)};
  if (!contents.reduces) return t('schedule.cell_copy', of);
  const here = contents.rankOf[cell];
  const missing = d3.range(contents.contributors(here)).filter((rank) => !origins.includes(rank));
  const [alone, part] = origins.length === 1 ? ['schedule.cell_alone', 'schedule.cell_own'] : ['schedule.cell_whole', 'schedule.cell_sum'];
  return t(missing.length ? part : alone, {...of, missing: spans(missing)});
}

// One transfer in a line.
function transferWords(contents, row, t) {
  const {rows} = contents;
  return t('schedule.transfer', {
    round: rows.round[row], from: rankName(contents, rows.source[row]), to: rankName(contents, rows.target[row]),
    chunks: transferChunks(contents, row), what: transferKind(contents, row, t),
  });
}

function transferKind({rows}, row, t) {
  if (rows.reduce[row]) return t('schedule.add');
  return t(rows.source[row] === rows.target[row] ? 'schedule.copy' : 'schedule.store');
}
