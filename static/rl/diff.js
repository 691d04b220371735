/* Which words of a text are new against another, by their longest common subsequence. */

const MOST = 600; // words and spaces of each text; beyond, nothing is marked: the table would grow too large
const LEAST_COMMON = 0.4; // of the words; with fewer the texts are two texts, and marks on nearly all of them help nobody

const wordsOf = (text) => text.match(/\s+|[^\s]+/g) ?? [];

/** lengths[i][j]: words that the rest of `a` from i and the rest of `b` from j have in common, in their order. */
function commonLengths(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

/** [[word, whether it stands in the other too], …] of both texts; as if all did where they have little in common. */
export function compareWords(before, after) {
  const a = wordsOf(before), b = wordsOf(after);
  if (a.length > MOST || b.length > MOST) return [[[before, true]], [[after, true]]]; // a million nodes hold a browser
  const lengths = commonLengths(a, b), left = [], right = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    const isCommon = i < a.length && j < b.length && a[i] === b[j];
    if (isCommon) {
      left.push([a[i++], true]);
      right.push([b[j++], true]);
    } else if (j === b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) left.push([a[i++], false]);
    else right.push([b[j++], false]);
  }
  return shareInCommon(left, right) < LEAST_COMMON ? [left, right].map(unmarked) : [left, right];
}

const unmarked = (words) => words.map(([word]) => [word, true]);

function shareInCommon(...texts) {
  const words = texts.flat().filter(([word]) => word.trim());
  return words.filter(([, isCommon]) => isCommon).length / Math.max(1, words.length);
}

/** Writes a text with what the other lacks inside elements of this name, such as "ins". */
export function showMarked(element, words, mark) {
  element.replaceChildren(...words.map(([word, isCommon]) => {
    if (isCommon || !word.trim()) return word;
    const made = document.createElement(mark);
    made.textContent = word;
    return made;
  }));
}
