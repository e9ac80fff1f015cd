// The public API as the console calls it: the key, errors, pages of lists, jobs. Nothing else talks to the server.

// What is to happen when the server goes away (`gone`) or comes `back`, asks for a `key`, or said what the `session` may do.
export const server = {};

// What the caller may do. Until the server says otherwise, all of it.
export const session = {guarded: false, write: true, admin: true, everything: true};

// In the memory of this page alone: never in an address, in storage or in the page's text.
let key = null;
let asking = null;
let gone = false;

const FETCH = {cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer'};
const headersFor = type => ({...(key !== null && {authorization: `Bearer ${key}`}), ...(type && {'content-type': type})});

// An error that the server answered with, as RFC 9457 has it. Its story names what is wrong with each member.
function problem(status, body) {
	const message = body?.detail || body?.title || `status ${status}`;
	const story = body?.errors?.map(({pointer, parameter, detail}) => `${pointer || parameter || 'request'}: ${detail}`).join('\n') || message;
	return Object.assign(new Error(message), {status, story});
}

export const hasKey = () => key !== null;

// A path from parts that may hold anything.
export const path = (...parts) => `/v1/${parts.map(part => encodeURIComponent(part)).join('/')}`;

// Sends a request and gives its answer. `body` is sent as JSON, unless `type` names another media type.
// Asks for a key when the server wants one, and tries again with it.
export async function send(method, target, {body, type, encoding, query, signal} = {}) {
	const url = new URL(target, location.origin);
	for (const [name, value] of Object.entries(query ?? {})) if ((value ?? '') !== '') url.searchParams.set(name, value);
	for (;;) {
		const used = key;
		const headers = headersFor(body !== undefined && (type ?? 'application/json'));
		if (encoding) headers['content-encoding'] = encoding;
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
	return answer.status === 204 ? null : answer.json().catch(() => null);
}

export const get = (target, query, signal) => call('GET', target, {query, signal});
export const post = (target, body, signal) => call('POST', target, {body, signal});

// The fields of metadata that a collection's first documents have.
export async function metadataOf(collection) {
	const {documents} = await get(path('collections', collection, 'documents'), {limit: 20});
	return [...new Set(documents.flatMap(one => Object.keys(one.metadata)))];
}

// Reads at most `most` lines of JSON, and gives them with whether there were more.
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

// Looks at a job until it ends, and tells `changed` each time.
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

// Saves what a path answers as a file. Without a key the browser streams it to the disk.
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

// Takes a key, or `null` to forget the one there is, and finds out what it may do.
export async function useKey(secret) {
	key = secret;
	await probe();
}

// Waits until the page has got a key; many requests may wait at once.
function askForKey(refused) {
	session.guarded = true;
	key = null;
	asking ??= server.key(refused).finally(() => { asking = null; });
	return asking;
}

// Finds out what the key may do, by three requests that change nothing: a list of keys, a collection without a name, a job that cannot be.
// Only whether they are forbidden counts.
export async function probe() {
	const allowed = async (method, target, body) => {
		const {status} = await fetch(target, {...FETCH, method, headers: headersFor('application/json'), body});
		if (status === 401) session.guarded = true;
		return status !== 401 && status !== 403;
	};
	try {
		session.everything = await allowed('GET', '/v1/keys?limit=1');
		session.admin = session.everything || key !== null && await allowed('POST', '/v1/collections', '{}');
		session.write = session.admin || key !== null && await allowed('POST', '/v1/jobs/00000000-0000-7000-8000-000000000000/cancel', '{}');
	} catch {
		wentAway();
	} finally {
		session.guarded ||= key !== null;
		server.session();
	}
}

// Tells that the server went away, and asks until it is back.
async function wentAway() {
	if (gone) return;
	gone = true;
	server.gone();
	while (gone) {
		await pause(1500);
		try {
			gone = !(await fetch('/readyz', {cache: 'no-store'})).ok;
		} catch { /* still away */ }
	}
	server.back();
}
