// Elements without a framework, and the parts that pages share: icons, messages, dialogs, meters, copy buttons.

import {session} from './api.js';
import {endonym, hue, languageName, number, pieces} from './text.js';

const DEFAULTS = {button: {type: 'button'}, input: {type: 'text', dir: 'auto', autocomplete: 'off', spellcheck: 'false'}, textarea: {dir: 'auto'}};
const CHOICES_MOST = 100;

const isShown = one => one !== null && one !== undefined && one !== false;

// Creates an element from a tag with classes (`p.hint`), attributes (`label` is `aria-label`), `on…` listeners, custom properties
// in `vars`, and children.
export function h(kind, ...children) {
	const [tag, ...classes] = kind.split('.');
	const element = document.createElement(tag);
	const props = {...DEFAULTS[tag], ...(children[0]?.constructor === Object && children.shift())};
	fill(element, children);
	if (classes.length > 0) element.className = classes.join(' ');
	for (const [name, value] of Object.entries(props)) {
		if (!isShown(value)) continue;
		if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
		else if (name === 'vars') for (const [key, one] of Object.entries(value)) element.style.setProperty(`--${key}`, one);
		else if (name === 'value' || value === true) element[name] = value;
		else element.setAttribute(name === 'label' ? 'aria-label' : name, value);
	}
	return element;
}

export const fill = (element, ...children) => element.replaceChildren(...children.flat(9).filter(isShown));

// An element with text in a language, in the direction of its script.
export const said = (kind, language, ...text) => h(kind, {dir: 'auto', lang: language ?? 'und'}, text);

const ICONS = {
	close: 'M6 6l12 12M18 6L6 18', check: 'M5 12.5l4.5 4.5L19 7.5', add: 'M12 5v14M5 12h14',
	down: 'M12 4v13M6 12l6 6 6-6', up: 'M12 20V7M6 12l6-6 6 6',
	search: 'M16 16l4 4M11 17a6 6 0 1 1 0-12 6 6 0 0 1 0 12z', bin: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13',
};

export function vector(tag, attributes, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
	element.append(...children);
	return element;
}

export const icon = name => vector('svg', {viewBox: '0 0 24 24', 'aria-hidden': 'true'}, vector('path', {d: ICONS[name]}));

// A button that shows that its action runs, and errors.
export function button(label, action, kind = '', {sign, ...props} = {}) {
	const one = h(`button.button.${kind}`, {...props, onclick: event => busy(one, () => action(event))}, sign && icon(sign), label);
	return one;
}

export async function busy(element, work) {
	if (element.ariaBusy === 'true') return;
	element.ariaBusy = 'true';
	await Promise.resolve().then(work).catch(failed);
	element.ariaBusy = null;
}

// Shows an error, unless the user has left the page.
export function failed(error) {
	if (error?.name === 'AbortError') return;
	if (!error?.story) console.error(error);
	tell(error?.story ?? 'Something went wrong. Reload this page.', 'bad');
}

export function tell(message, kind = 'good') {
	const toasts = document.getElementById('toasts');
	const toast = h(`div.toast.${kind}`, h('p', message), button('', () => toast.remove(), 'plain', {sign: 'close', label: 'Close'}));
	toasts.append(toast);
	if (kind !== 'bad') setTimeout(() => toast.remove(), 6000);
	if (toasts.childElementCount > 4) toasts.firstElementChild.remove();
}

export function field(label, control, hint) {
	const id = control.id ||= fresh();
	if (hint) control.setAttribute('aria-describedby', `${id}-hint`);
	return h('div.field', h('label', {for: id}, label), control, hint && h('p.hint', {id: `${id}-hint`}, hint));
}

export const check = (label, checked, changed, hint) => h('label.check', h('input', {type: 'checkbox', checked, onchange: event => changed(event.target.checked)}), h('span', label, hint && h('small', hint)));

let last = 0;
export const fresh = () => `e${(last += 1)}`;

// A select element for values or [value, text] pairs.
export function select(options, value, changed, props) {
	const pairs = options.map(one => (Array.isArray(one) ? one : [one, one]));
	const one = h('select', {...props, onchange: () => changed?.(one.value)}, pairs.map(([key, text]) => h('option', {value: key}, text)));
	one.value = value ?? pairs[0]?.[0] ?? '';
	return one;
}

// A selector for one of the collections; if there are too many, a text field for its name.
export function pickCollection({collections, next_cursor: more}, value, changed, props) {
	const names = [...new Set([value, ...collections.map(one => one.name)])];
	if (!more && names.length <= CHOICES_MOST) return select(names.sort(), value, changed, props);
	const known = h('datalist', {id: fresh()}, names.map(name => h('option', {value: name})));
	document.getElementById('main').append(known);
	const box = h('input', {...props, list: known.id, value, onchange: () => box.value && changed(box.value)});
	return box;
}

// A modal dialog; `build(close)` returns its content. Resolves with the argument of `close`.
export function dialog(title, build, cls = '') {
	return new Promise(resolve => {
		const id = fresh();
		const before = document.activeElement;
		const close = value => {
			box.close();
			box.remove();
			if (before?.isConnected) before.focus();
			resolve(value);
		};
		const box = h(`dialog.${cls}`, {'aria-labelledby': id,
			oncancel: event => {
				event.preventDefault();
				close();
			},
			onclick: event => event.target === box && close()},
		h('header', h('h2', {id}, title), button('', () => close(), 'plain', {sign: 'close', label: 'Close'})), h('div.body', build(close)));
		document.body.append(box);
		box.showModal();
		(box.querySelector('[autofocus]') ?? box.querySelector('.body :is(input, textarea, select, button)'))?.focus();
	});
}

export const form = (submit, ...children) => h('form', {onsubmit: event => {
	event.preventDefault();
	submit();
}}, children);

// Fields by name: [label, control or attributes of a text field, hint], an element, or a collapsed group of fields. `values()`
// returns the input: numbers, lists for `data-list`, nothing for empty fields.
export function fieldsOf(fields) {
	const controls = [];
	const draw = ([name, one]) => {
		if (!one || one instanceof Element) return one;
		if (!Array.isArray(one)) return h('details', h('summary', 'More'), Object.entries(one).map(draw));
		const [label, control = {}, help] = one;
		const made = control instanceof Element ? control : h('input', control);
		controls.push([name, made]);
		return field(label, made, help);
	};
	const valueOf = control => {
		const text = control.value.trim();
		if (control.dataset.list !== undefined) return listed(control);
		return text === '' || control.closest('[hidden]') ? undefined : control.type === 'number' ? Number(text) : text;
	};
	return {elements: Object.entries(fields).map(draw), values: () => Object.fromEntries(controls.map(([name, control]) => [name, valueOf(control)]))};
}

// A dialog with a form. It closes with the result of `submit`; if that throws, it shows the error and stays open.
export function ask(title, fields, action, submit, cls) {
	const {elements, values} = fieldsOf(fields);
	return dialog(title, close => {
		const wrong = h('p.notice.bad', {hidden: true, role: 'alert'});
		const go = h('button.button.primary', {type: 'submit'}, action);
		return form(() => busy(go, () => Promise.resolve(values()).then(submit).then(close, error => {
			wrong.hidden = false;
			wrong.textContent = error.story ?? error.message;
		})), elements, wrong, h('footer', go));
	}, cls);
}

// Asks for confirmation of a deletion. With `word`, that word must be typed.
export function confirmed(title, text, action, word) {
	return dialog(title, close => {
		const go = h('button.button.danger', {type: 'submit', disabled: Boolean(word)}, action);
		const typed = word && h('input', {oninput: () => { go.disabled = typed.value !== word; }});
		return form(() => close(true), h('p', text), typed && field(`Type ${word} to confirm`, typed), h('footer', button('Cancel', () => close(false)), go));
	});
}

export const hint = (...text) => h('p.hint', text);

// The trimmed contents of a text field, and the same as a list.
export const written = input => input.value.trim();
export const listed = input => input.value.split(',').map(one => one.trim()).filter(Boolean);

export const marked = (text, marks, kind = 'mark') => pieces(text, marks).map(one => (one.marked ? h(kind, one.text) : one.text));

export const passage = (text, marks, language) => said('p.passage', language, marked(text, marks));

export function tongue(code, {own = true} = {}) {
	const [self, name] = [own && endonym(code), languageName(code)];
	return h('span.tongue', {vars: {hue: hue(code)}}, h('i'), self && self !== name && said('b', code, self), h('span', name));
}

// The shares of languages as one bar: [{language, documents}].
export function languageBar(counts) {
	const total = counts.reduce((sum, one) => sum + one.documents, 0);
	const parts = [...counts].sort((a, b) => b.documents - a.documents);
	const text = parts.slice(0, 12).map(one => `${languageName(one.language)} ${number(one.documents)}`).join(', ');
	return h('div.spectrum', {role: 'img', label: `Documents by language: ${text || 'none'}`, title: text},
		parts.map(one => h('i', {vars: {hue: hue(one.language), part: one.documents / Math.max(total, 1)}})));
}

export const meter = value => h('span.meter', {'aria-hidden': 'true'}, h('i', {vars: {part: Math.max(0, Math.min(1, value || 0))}}));

// A button that copies the text of `place`. Without TLS, there is no clipboard API.
export function copier(place) {
	const one = button('Copy', async () => {
		getSelection().selectAllChildren(place);
		await (navigator.clipboard?.writeText(place.textContent) ?? document.execCommand('copy'));
		one.lastChild.textContent = 'Copied';
		setTimeout(() => { one.lastChild.textContent = 'Copy'; }, 1500);
	}, 'small');
	return one;
}

export const empty = (title, text, ...more) => h('div.empty', h('h2', title), text && h('p', text), more);

export const head = (title, text, ...actions) => h('div.head', h('div', h('h1', title), text && h('p', text)), h('div.actions', actions));

export const card = (title, ...content) => h('section.card', h('h2', title), content);

export const facts = (...parts) => h('p.facts', parts.flat().map(one => (typeof one === 'string' ? h('span', one) : one)));

export const stats = (kind, pairs) => h(kind, pairs.map(([name, value]) => h('div', h('dt', name), h('dd', value))));

// A table that scrolls. Rows are lists of cells; columns whose name begins with # hold numbers.
export function table(label, columns, rows) {
	const kinds = columns.map(one => (one.startsWith('#') ? '.num' : ''));
	const line = row => h('tr', row.map((cell, at) => (cell instanceof HTMLTableCellElement ? cell : h(`td${kinds[at]}`, cell))));
	return h('div.scroll', {tabindex: '0', role: 'region', label: label},
		h('table', h('thead', h('tr', columns.map((one, at) => h(`th${kinds[at]}`, {scope: 'col'}, one.replace('#', ''))))), h('tbody', rows.map(line))));
}

// Whether the caller may do what needs `write`, `admin` or `everything`.
export const may = what => session[what];
