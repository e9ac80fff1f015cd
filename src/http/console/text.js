// Text formatting: names of languages, numbers, times, and marks.

const numbers = new Intl.NumberFormat('en');
const sizes = new Intl.NumberFormat('en', {style: 'unit', unit: 'byte', unitDisplay: 'narrow', notation: 'compact'});
const relative = new Intl.RelativeTimeFormat('en', {numeric: 'auto'});
const ordinals = new Intl.PluralRules('en', {type: 'ordinal'});
// Names that browsers tend not to know.
const endonyms = new Map(Object.entries({
	eo: 'Esperanto', eu: 'euskara', gl: 'galego', hy: 'հայերեն', jv: 'Basa Jawa', ka: 'ქართული', ku: 'kurdî', mk: 'македонски',
	mn: 'монгол', my: 'မြန်မာ', sq: 'shqip', yo: 'Yorùbá',
}));

function nameIn(locale, code) {
	try {
		return new Intl.DisplayNames([locale], {type: 'language', fallback: 'none'}).of(code) ?? '';
	} catch {
		return '';
	}
}

function remembered(find, known = new Map()) {
	return code => {
		if (!known.has(code)) known.set(code, find(code));
		return known.get(code);
	};
}

// A language's English name; its code if the language is unknown.
export const languageName = remembered(code => (code ? nameIn('en', code) || code : 'No language'));

// A language's own name, or nothing if the browser does not know it.
export const endonym = remembered(code => {
	const name = code ? nameIn(code, code) : '';
	return name === languageName(code) && code !== 'en' ? '' : name;
}, endonyms);

// The hue of a language in every chart: neighbors in the alphabet are far apart.
export function hue(code) {
	let place = 0;
	for (const letter of code ?? '') place = place * 26 + letter.charCodeAt(0);
	return code ? Math.round((place * 137.508) % 360) : 0;
}

// Counts by language, most frequent first, except that of documents without one.
export const spoken = counts => counts.filter(one => one.language).sort((a, b) => b.documents - a.documents);

export const counted = counts => spoken(counts).map(one => [one.language, `${languageName(one.language)} (${number(one.documents)})`]);

export const number = value => numbers.format(value);
export const percent = value => `${(value * 100).toFixed(1)} %`;
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export function ordinal(rank) {
	return rank + {one: 'st', two: 'nd', few: 'rd', other: 'th'}[ordinals.select(rank)];
}

// A score with three digits, whatever its magnitude.
export const score = value => (Number.isFinite(value) ? value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 3) : '–');

export const bytes = count => sizes.format(count);

export function duration(seconds) {
	if (seconds < 60) return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
	const minutes = Math.round(seconds / 60);
	return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;

export const when = timestamp => new Date(timestamp).toLocaleString('en-GB', {dateStyle: 'medium', timeStyle: 'short'});

export function ago(timestamp) {
	const seconds = (new Date(timestamp) - Date.now()) / 1000;
	for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
		if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
	}
	return Math.abs(seconds) < 5 ? 'just now' : relative.format(Math.round(seconds), 'second');
}

// Splits a text at its marks, which count code points, not UTF-16 units. Returns [{text, marked}] in order, without marks that
// overlap or lie outside.
export function pieces(text = '', marks) {
	const points = Array.from(text);
	const found = [];
	let at = 0;
	const add = (to, marked) => {
		if (to > at) found.push({text: points.slice(at, to).join(''), marked});
		at = Math.max(at, to);
	};
	for (const {start, end} of marks ?? []) {
		if (start < at || end > points.length) continue;
		add(start, false);
		add(end, true);
	}
	add(points.length, false);
	return found;
}

export function short(value, length = 60) {
	const points = Array.from(typeof value === 'string' ? value : JSON.stringify(value) ?? '');
	return points.length > length ? `${points.slice(0, length - 1).join('')}…` : points.join('');
}
