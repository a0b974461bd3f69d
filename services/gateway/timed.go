package gateway

import (
	"net/http"
	"time"
)

// writeWithin bounds each write to a client, who may have stopped reading.
const writeWithin = 10 * time.Second

// timedWriter bounds each write of an answer. The whole of an answer has no bound: a stream lasts. Nor has the time
// between two writes, because HTTP/2 resets a stream whose deadline passes although nothing is to be written.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
}

// timed bounds the writes of a handler.
func timed(within time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := timedWriter{w, http.NewResponseController(w), within}
		t.unbound() // the request before on this connection left its own
		next.ServeHTTP(t, r)
		t.bound() // for what net/http still writes
	})
}

// bound begins the time of a write, and returns what ends it.
func (w timedWriter) bound() (end func()) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.within)) // net/http can
	return w.unbound
}

func (w timedWriter) unbound() { _ = w.control.SetWriteDeadline(time.Time{}) }

// WriteHeader implements http.ResponseWriter.
func (w timedWriter) WriteHeader(status int) {
	defer w.bound()()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w timedWriter) Write(p []byte) (int, error) {
	defer w.bound()()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w timedWriter) Flush() { _ = w.FlushError() } // the next write fails too

// FlushError is what http.ResponseController calls.
func (w timedWriter) FlushError() error {
	defer w.bound()()
	return w.control.Flush()
}

// Unwrap is what http.ResponseController calls.
func (w timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
