// The public API: the key, errors, pages of lists, jobs. Nothing else talks to the server.

// Callbacks: the server is unreachable (`gone`) or `back`, asks for a `key`, or the `session`'s permissions are known.
export const server = {};

// What the caller may do: everything, until the server says otherwise.
export const session = {guarded: false, write: true, admin: true, everything: true};

// Only in the memory of this page: never in an address, in storage or in the page's text.
let key = null;
let asking = null;
let gone = false;

const FETCH = {cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer'};
const headersFor = type => ({...(key !== null && {authorization: `Bearer ${key}`}), ...(type && {'content-type': type})});

// An error response, as in RFC 9457. Its story says what is wrong with each member.
function problem(status, body) {
	const message = status === 412 ? 'The document has changed meanwhile. Open it again.' : body?.detail || body?.title || `status ${status}`;
	const story = body?.errors?.map(({pointer, parameter, detail}) => `${pointer || parameter || 'request'}: ${detail}`).join('\n') || message;
	return Object.assign(new Error(message), {status, story});
}

export const hasKey = () => key !== null;

// Relative: a proxy may add a path before it.
export const path = (...parts) => `v1/${parts.map(part => encodeURIComponent(part)).join('/')}`;

// Sends a request and returns its response. `body` is sent as JSON, unless `type` names another media type.
// Asks for a key if the server requires one, and retries with it.
export async function send(method, target, {body, type, encoding, version, query, signal} = {}) {
	const url = new URL(target, location);
	for (const [name, value] of Object.entries(query ?? {})) if ((value ?? '') !== '') url.searchParams.set(name, value);
	for (;;) {
		const used = key;
		const headers = headersFor(body !== undefined && (type ?? 'application/json'));
		if (encoding) headers['content-encoding'] = encoding;
		if (version) headers['if-match'] = `"${version}"`;
		const answer = await fetch(url, {...FETCH, method, headers, signal, body: type ? body : JSON.stringify(body)}).catch(error => {
			if (error.name === 'AbortError') throw error;
			wentAway();
			throw Object.assign(error, {story: 'The server does not answer.'});
		});
		if (answer.ok) return answer;
		if (answer.status !== 401) throw problem(answer.status, await answer.json().catch(() => null));
		if (key === used) await askForKey(used !== null);
	}
}

export async function call(method, target, options) {
	const answer = await send(method, target, options);
	return answer.status === 204 ? null : answer.text().then(parse).catch(() => null);
}

// Parses JSON. Integers that a number cannot hold stay as written, if the browser can do this.
export const parse = text => JSON.parse(text, (_, value, {source} = {}) => (source && Number.isInteger(value) && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value));

export const get = (target, query, signal) => call('GET', target, {query, signal});
export const post = (target, body, signal) => call('POST', target, {body, signal});

// All rows of a list.
export async function all(list, signal) {
	const rows = [];
	for (let cursor = ''; cursor !== undefined;) {
		const page = await get(`v1/${list}`, {limit: 200, cursor}, signal);
		rows.push(...page[list]);
		cursor = page.next_cursor;
	}
	return rows;
}

// The metadata fields of a collection's first documents.
export async function metadataOf(collection) {
	const {documents} = await get(path('collections', collection, 'documents'), {limit: 20});
	return [...new Set(documents.flatMap(one => Object.keys(one.metadata)))];
}

// Reads at most `most` lines of JSON; also returns whether there were more.
export async function lines(target, {query, signal, most}) {
	const reader = (await send('GET', target, {query, signal})).body.pipeThrough(new TextDecoderStream()).getReader();
	const parts = [];
	for (let count = 0; count <= most;) {
		const {done, value = ''} = await reader.read();
		parts.push(value);
		count += value.split('\n').length - 1;
		if (done) break;
	}
	reader.cancel();
	const all = parts.join('').split('\n').filter(line => line.trim());
	return {lines: all.slice(0, most).map(line => JSON.parse(line)), more: all.length > most};
}

// Polls a job until it ends, and calls `changed` each time.
export async function follow(id, changed, signal) {
	for (let wait = 150; ; wait = Math.min(wait * 1.3, 1500)) {
		const job = await get(path('jobs', id), {}, signal);
		changed?.(job);
		if (ended(job)) return job;
		await pause(wait, signal);
	}
}

export const ended = job => ['succeeded', 'failed', 'canceled'].includes(job.status);

export function pause(milliseconds, signal) {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(resolve, milliseconds);
		signal?.addEventListener('abort', () => {
			clearTimeout(timer);
			reject(new DOMException('left', 'AbortError'));
		}, {once: true});
	});
}

// Saves the response of a path as a file. Without a key the browser streams it to the disk.
export async function download(target, name) {
	if (key === null) click(target, name);
	else save(await (await send('GET', target)).blob(), name);
}

export function save(content, name) {
	const address = URL.createObjectURL(content);
	click(address, name);
	setTimeout(() => URL.revokeObjectURL(address), 60000);
}

const click = (href, download) => Object.assign(document.createElement('a'), {href, download}).click();

// Uses a key, or forgets the current one if `null`, and finds out what is permitted.
export async function useKey(secret) {
	key = secret;
	await probe();
}

// Waits until the page has a key; many requests may wait at once.
function askForKey(refused) {
	session.guarded = true;
	key = null;
	asking ??= server.key(refused).finally(() => { asking = null; });
	return asking;
}

// Finds out what the key may do by three requests that change nothing, from which of them are forbidden.
export async function probe() {
	const allowed = async (method, target, body) => {
		const {status} = await fetch(target, {...FETCH, method, headers: headersFor('application/json'), body});
		if (status === 401) session.guarded = true;
		return status !== 401 && status !== 403;
	};
	try {
		session.everything = await allowed('GET', 'v1/keys?limit=1');
		session.admin = session.everything || key !== null && await allowed('POST', 'v1/collections', '{}');
		session.write = session.admin || key !== null && await allowed('POST', 'v1/jobs/00000000-0000-7000-8000-000000000000/cancel', '{}');
	} catch {
		wentAway();
	} finally {
		session.guarded ||= key !== null;
		server.session();
	}
}

// Reports that the server is unreachable, and polls until it is back.
async function wentAway() {
	if (gone) return;
	gone = true;
	server.gone();
	while (gone) {
		await pause(1500);
		try {
			gone = !(await fetch('readyz', {cache: 'no-store'})).ok;
		} catch { /* still unreachable */ }
	}
	server.back();
}
