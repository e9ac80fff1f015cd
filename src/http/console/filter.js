// The filter editor: rows of field, operator and value that must all hold, or the filter itself as JSON.

import {button, fill, fresh, h, select} from './dom.js';

const OPERATORS = [
	['eq', 'is'], ['ne', 'is not'], ['in', 'is one of'], ['any', 'has any of'], ['prefix', 'begins with'],
	['gte', '≥'], ['gt', '>'], ['lte', '≤'], ['lt', '<'], ['exists', 'exists'], ['missing', 'is missing'],
];
const nameOf = operator => OPERATORS.find(([name]) => name === operator)?.[1];
const alone = operator => ['exists', 'missing'].includes(operator);

// The row for a leaf of a filter; nothing if a row cannot express it.
function row({field, ...rest}) {
	const [[operator, value] = [], more] = Object.entries(rest);
	if (typeof field !== 'string' || more || !nameOf(operator)) return null;
	if (operator === 'exists') return {field, operator: value ? 'exists' : 'missing', value: ''};
	// Lists are split at commas.
	if (value?.some?.(one => String(one).includes(','))) return null;
	return {field, operator, value: [value].flat().map(show).join(', ')};
}

function rows(filter) {
	const found = filter ? (filter.and ?? [filter]).map(row) : [];
	return found.includes(null) ? null : found;
}

// A string that would parse as a number or as `true`, `false` or `null` keeps its quotes.
const show = value => (typeof value === 'string' && parse(value) === value ? value : JSON.stringify(value));

function parse(text) {
	const word = text.trim();
	if (/^(true|false|-?\d+(\.\d+)?([eE][+-]?\d+)?|".*")$/.test(word)) {
		try {
			return JSON.parse(word);
		} catch { /* not JSON, so it is a string */ }
	}
	return word;
}

function leaf({field, operator, value}) {
	if (alone(operator)) return {field, exists: operator === 'exists'};
	const several = operator === 'in' || operator === 'any';
	return {field, [operator]: several ? value.split(',').map(parse).filter(one => one !== '') : parse(value)};
}

function compose(list) {
	const leaves = list.filter(one => one.field && (one.value !== '' || alone(one.operator))).map(leaf);
	return leaves.length > 1 ? {and: leaves} : leaves[0];
}

export function inWords(filter) {
	const list = rows(filter);
	return list ? list.map(({field, operator, value}) => `${field} ${nameOf(operator)} ${value}`.trim()).join(' and ') : JSON.stringify(filter);
}

// `filter` with one more condition.
export function also(filter, condition) {
	if (!filter) return condition;
	const list = filter.and ?? [filter];
	return list.some(one => JSON.stringify(one) === JSON.stringify(condition)) ? filter : {and: [...list, condition]};
}

// An editor for `filter`. `changed` gets the new filter, or undefined. `fields` are suggested names.
export function filterEditor(filter, changed, fields = []) {
	const names = h('datalist', {id: fresh()}, [...new Set(['language', 'id', 'created_at', 'updated_at', ...fields])].map(name => h('option', {value: name})));
	const place = h('div.rows');
	const note = h('p.hint.bad', {role: 'status'});
	let list = rows(filter);

	const asRows = () => {
		const apply = () => changed(compose(list));
		const line = (one, at) => {
			const name = h('input', {list: names.id, value: one.field, placeholder: 'field', label: 'Field', onchange: () => { one.field = name.value.trim(); apply(); }});
			const value = h('input', {value: one.value, placeholder: 'value', label: 'Value', hidden: alone(one.operator), onchange: () => { one.value = value.value; apply(); }});
			const operator = select(OPERATORS, one.operator, chosen => {
				one.operator = chosen;
				value.hidden = alone(chosen);
				apply();
			}, {label: 'Operator'});
			return h('div.row', name, operator, value, button('', () => { list.splice(at, 1); asRows(); apply(); }, 'plain', {sign: 'close', label: 'Remove this condition'}));
		};
		fill(place, names, list.map(line), h('div.row',
			button('Condition', () => { list.push({field: '', operator: 'eq', value: ''}); asRows(); place.querySelector('.row:nth-last-child(2) input').focus(); }, 'small', {sign: 'add'}),
			button('As JSON', asJson, 'small')));
	};
	const asJson = () => {
		const now = list ? compose(list) : filter;
		const text = h('textarea.json', {dir: 'ltr', rows: 4, spellcheck: 'false', label: 'Filter as JSON', value: now ? JSON.stringify(now, null, 1) : '', onchange: () => {
			note.textContent = '';
			try {
				filter = text.value.trim() === '' ? undefined : JSON.parse(text.value);
				list = rows(filter);
				changed(filter);
			} catch (error) {
				note.textContent = `This is not JSON: ${error.message}`;
			}
		}});
		fill(place, text, note, h('div.row', button('As rows', () => {
			if (list) asRows();
			else note.textContent = 'Rows can only show conditions that must all hold.';
		}, 'small')));
	};
	if (list) asRows();
	else asJson();
	return place;
}
