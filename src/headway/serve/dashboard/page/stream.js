// The server's moments as they come, and the server's clock between them.

const SILENCE_MS = 4000;
const AGAIN_MS = 2000;

export class Stream {
  // `hear(moment)` is called for each, `change(state)` with "wait", "good" or "lost" when that changes.
  constructor(hear, change) {
    this.hear = hear;
    this.change = change;
    this.source = null;
    this.offset = null;
    this.state = "";
    this.heard_ms = performance.now();
    this.again = 0;
    setInterval(() => this.check(), 1000);
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.open());
    this.open();
  }

  open() {
    if (this.source || document.hidden) return;
    if (this.state !== "lost") this.tell("wait");
    this.heard_ms = performance.now();
    this.source = new EventSource("ui/events");
    this.source.onmessage = (event) => this.take(JSON.parse(event.data));
    this.source.onerror = () => this.fail();
  }

  close() {
    clearTimeout(this.again);
    this.source?.close();
    this.source = null;
  }

  reopen() {
    this.close();
    this.open();
  }

  take(moment) {
    this.heard_ms = performance.now();
    const offset = moment.now - this.heard_ms / 1000;
    // What came the fastest tells the clocks' difference best; another server's clock is another.
    const same = this.offset !== null && Math.abs(offset - this.offset) < 3;
    this.offset = same ? Math.max(offset, this.offset - 0.002) : offset;
    this.tell("good");
    this.hear(moment);
  }

  now() {
    return this.offset === null ? null : performance.now() / 1000 + this.offset;
  }

  fail() {
    this.tell("lost");
    if (this.source?.readyState !== EventSource.CLOSED) return;
    this.close();
    this.again = setTimeout(() => this.open(), AGAIN_MS);
  }

  check() {
    if (!this.source || performance.now() - this.heard_ms < SILENCE_MS) return;
    this.tell("lost");
    this.reopen();
  }

  tell(state) {
    if (state === this.state) return;
    this.state = state;
    this.change(state);
  }
}
