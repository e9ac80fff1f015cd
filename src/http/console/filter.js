// The editor of filters: rows of field, operator and value that must all hold, or the filter itself as JSON.

import { button, fresh, h, select } from './dom.js';

const OPERATORS = [
  ['eq', 'is'], ['ne', 'is not'], ['in', 'is one of'], ['any', 'has any of'], ['prefix', 'begins with'],
  ['gte', '≥'], ['gt', '>'], ['lte', '≤'], ['lt', '<'], ['exists', 'exists'], ['missing', 'is missing'],
];

/** A row of the editor from a leaf of a filter; nothing for what rows cannot say. */
function row(leaf) {
  const keys = Object.keys(leaf).filter((name) => name !== 'field');
  if (typeof leaf.field !== 'string' || keys.length !== 1) return null;
  const [operator] = keys;
  const value = leaf[operator];
  if (operator === 'exists') return { field: leaf.field, operator: value ? 'exists' : 'missing', value: '' };
  if (!OPERATORS.some(([name]) => name === operator)) return null;
  return { field: leaf.field, operator, value: Array.isArray(value) ? value.map(show).join(', ') : show(value) };
}

function rows(filter) {
  if (!filter) return [];
  const found = (filter.and ?? [filter]).map(row);
  return found.includes(null) ? null : found;
}

// A text that would read as a number or a word of JSON keeps its quotes.
const show = (value) => (typeof value === 'string' && parse(value) === value ? value : JSON.stringify(value));

function parse(text) {
  const word = text.trim();
  if (/^(true|false|-?\d+(\.\d+)?([eE][+-]?\d+)?|".*")$/.test(word)) {
    try {
      return JSON.parse(word);
    } catch { /* a text after all */ }
  }
  return word;
}

function leaf({ field, operator, value }) {
  if (operator === 'exists' || operator === 'missing') return { field, exists: operator === 'exists' };
  const several = operator === 'in' || operator === 'any';
  return { field, [operator]: several ? value.split(',').map(parse).filter((one) => one !== '') : parse(value) };
}

function compose(list) {
  const leaves = list.filter((one) => one.field && (one.value !== '' || ['exists', 'missing'].includes(one.operator))).map(leaf);
  if (leaves.length === 0) return undefined;
  return leaves.length === 1 ? leaves[0] : { and: leaves };
}

/** The filter in words, for a button or a line. */
export function inWords(filter) {
  if (!filter) return '';
  const list = rows(filter);
  if (!list) return JSON.stringify(filter);
  return list.map(({ field, operator, value }) => `${field} ${OPERATORS.find(([name]) => name === operator)[1]} ${value}`.trim()).join(' and ');
}

/** `filter` and one more condition. */
export function also(filter, condition) {
  if (!filter) return condition;
  const same = JSON.stringify(condition);
  const list = filter.and ?? [filter];
  return list.some((one) => JSON.stringify(one) === same) ? filter : { and: [...list, condition] };
}

/** The editor of `filter`; `changed` gets the new one, or nothing when there is none. `fields` are offered as names. */
export function filterEditor(filter, changed, fields = []) {
  const names = h('datalist', { id: fresh() }, [...new Set(['language', 'id', 'created_at', 'updated_at', ...fields])].map((name) => h('option', { value: name })));
  const place = h('div.rows');
  const note = h('p.hint.bad', { role: 'status' });
  let list = rows(filter);

  const asRows = () => {
    const line = (one, at) => {
      const apply = () => changed(compose(list));
      const name = h('input', { list: names.id, value: one.field, placeholder: 'field', 'aria-label': 'Field', onchange: () => { one.field = name.value.trim(); apply(); } });
      const value = h('input', { value: one.value, placeholder: 'value', 'aria-label': 'Value', hidden: ['exists', 'missing'].includes(one.operator),
        onchange: () => { one.value = value.value; apply(); } });
      const operator = select(OPERATORS, one.operator, (chosen) => {
        one.operator = chosen;
        value.hidden = ['exists', 'missing'].includes(chosen);
        apply();
      }, { 'aria-label': 'Operator' });
      return h('div.row', name, operator, value, button('', () => { list.splice(at, 1); asRows(); apply(); }, 'plain', { sign: 'close', label: 'Remove this condition' }));
    };
    place.replaceChildren(names, ...list.map(line), h('div.row',
      button('Condition', () => { list.push({ field: '', operator: 'eq', value: '' }); asRows(); place.querySelector('.row:nth-last-child(2) input').focus(); }, 'small', { sign: 'add' }),
      button('As JSON', () => asJson(), 'small', { sign: 'code' })));
  };
  const asJson = () => {
    const text = h('textarea.mono', { rows: 4, spellcheck: 'false', 'aria-label': 'Filter as JSON', value: filterText(list ? compose(list) : filter),
      onchange: () => {
        note.textContent = '';
        try {
          const value = text.value.trim() === '' ? undefined : JSON.parse(text.value);
          list = rows(value);
          filter = value;
          changed(value);
        } catch (error) {
          note.textContent = `This is not JSON: ${error.message}`;
        }
      } });
    place.replaceChildren(text, note, h('div.row', button('As rows', () => {
      if (list) asRows();
      else note.textContent = 'Rows can say only conditions that must all hold.';
    }, 'small')));
  };
  if (list) asRows();
  else asJson();
  return place;
}

const filterText = (filter) => (filter ? JSON.stringify(filter, null, 1) : '');
