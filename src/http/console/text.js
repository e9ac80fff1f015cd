// What the console writes: languages by their names, numbers, times, and passages with their marks.

const englishNames = new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' });
const numbers = new Intl.NumberFormat('en');
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const ordinals = new Intl.PluralRules('en', { type: 'ordinal' });
// Names that browsers tend not to know.
const endonyms = new Map(Object.entries({
  eo: 'Esperanto', eu: 'euskara', gl: 'galego', hy: 'հայերեն', jv: 'Basa Jawa', ka: 'ქართული', ku: 'kurdî', mk: 'македонски',
  mn: 'монгол', my: 'မြန်မာ', sq: 'shqip', yo: 'Yorùbá',
}));

/** A language's English name; of an unknown one its code. */
export function languageName(code) {
  if (!code) return 'No language';
  try {
    return englishNames.of(code) ?? code;
  } catch {
    return code;
  }
}

/** A language's name in itself, or nothing when the browser does not know it. */
export function endonym(code) {
  if (!code) return '';
  if (!endonyms.has(code)) {
    let name = '';
    try {
      name = new Intl.DisplayNames([code], { type: 'language', fallback: 'none' }).of(code) ?? '';
    } catch { /* no such locale */ }
    endonyms.set(code, name === languageName(code) && code !== 'en' ? '' : name);
  }
  return endonyms.get(code);
}

/** The hue of a language in every picture: neighbors in the alphabet are far apart. */
export function hue(code) {
  let place = 0;
  for (const letter of code ?? '') place = place * 26 + letter.charCodeAt(0);
  return code ? Math.round((place * 137.508) % 360) : 0;
}

/** Counts by language, those without one left out, the most frequent first. */
export const spoken = (counts) => counts.filter((one) => one.language).sort((a, b) => b.documents - a.documents);

/** The same as choices for a select. */
export const counted = (counts) => spoken(counts).map((one) => [one.language, `${languageName(one.language)} (${number(one.documents)})`]);

export const number = (value) => numbers.format(value);
export const percent = (value) => `${(value * 100).toFixed(1)} %`;
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** 1st, 2nd, 3rd, 4th. */
export function ordinal(rank) {
  return rank + { one: 'st', two: 'nd', few: 'rd', other: 'th' }[ordinals.select(rank)];
}

/** A score with three digits, whatever its size. */
export function score(value) {
  if (!Number.isFinite(value)) return '–';
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(Math.abs(value) >= 10 ? 1 : 3);
}

export function bytes(count) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** The address of a page of the console. */
export const link = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;

/** The day and the time. */
export const when = (timestamp) => new Date(timestamp).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });

/** How long ago something happened. */
export function ago(timestamp) {
  const seconds = (new Date(timestamp) - Date.now()) / 1000;
  for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  }
  return Math.abs(seconds) < 5 ? 'just now' : relative.format(Math.round(seconds), 'second');
}

/**
 * Cuts a text where its marks begin and end. The API counts code points, JavaScript strings count UTF-16 units.
 * Gives [{text, marked}] in order; marks that overlap or lie outside are left out.
 */
export function pieces(text, marks) {
  const points = Array.from(text);
  const found = [];
  let at = 0;
  const add = (to, marked) => {
    if (to > at) found.push({ text: points.slice(at, to).join(''), marked });
    at = Math.max(at, to);
  };
  for (const { start, end } of marks ?? []) {
    if (start < at || end > points.length) continue;
    add(start, false);
    add(end, true);
  }
  add(points.length, false);
  return found;
}

/** The part of a text between two places in code points, and what stands around it. */
export function around(text, start, end) {
  const points = Array.from(text);
  return [points.slice(0, start).join(''), points.slice(start, end).join(''), points.slice(end).join('')];
}

/** Any JSON value as a short text. */
export function short(value, length = 60) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const points = Array.from(text ?? '');
  return points.length > length ? `${points.slice(0, length - 1).join('')}…` : points.join('');
}
