// A real server for the tests: a program, a port and a data directory of its own, on loopback.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The repository's folder, from the script that runs the tests. */
export const ROOT = process.env.DRAGOMAN_ROOT ?? process.cwd();

function program(): string {
  const built = ["release", "debug"].map((kind) => join(ROOT, "target", kind, "dragoman"));
  const found = process.env.DRAGOMAN_PROGRAM ?? built.find((path) => existsSync(path));
  if (found === undefined) throw new Error("there is no program: build one, or say where it is by DRAGOMAN_PROGRAM");
  return found;
}

export class Server {
  url = "";
  #process: ChildProcess | undefined;
  #listen = "127.0.0.1:0";

  private constructor(
    readonly folder: string,
    readonly options: string[],
  ) {}

  static async start(...options: string[]): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "dragoman-")), options);
    await server.start();
    return server;
  }

  /** Starts the server. A restart keeps the port and the data. */
  async start(): Promise<void> {
    const log = join(this.folder, "log");
    const file = await open(log, "w");
    const libraries = join(ROOT, ".runtime", "onnxruntime", "libonnxruntime.so");
    const env = { ORT_DYLIB_PATH: libraries, ...process.env };
    const options = ["serve", "--listen", this.#listen, "--data", join(this.folder, "data"), "--log-format", "json", ...this.options];
    this.#process = spawn(program(), options, { cwd: ROOT, env, stdio: ["ignore", "ignore", file.fd] });
    await file.close();
    for (let left = 1200; left > 0 && this.#process.exitCode === null; left -= 1) {
      const address = /"address":"([^"]*)"/.exec(await readFile(log, "utf8"))?.[1];
      if (address !== undefined) {
        [this.#listen, this.url] = [address, `http://${address}`];
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the server did not start: ${await readFile(log, "utf8")}`);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process?.once("exit", resolve));
    this.#process?.kill("SIGKILL");
    await ended;
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true });
  }
}
