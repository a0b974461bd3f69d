package gateway

import (
	"net/http"
	"time"
)

// writeWithin bounds each write to a client, who may have stopped reading.
const writeWithin = 10 * time.Second

// timedWriter bounds each write of an answer. The whole of an answer has no bound: a stream lasts.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// timed bounds the writes of a handler.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := timedWriter{w, http.NewResponseController(w)}
		t.extend()
		next.ServeHTTP(t, r)
		t.extend() // for what net/http still writes
	})
}

func (w timedWriter) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(writeWithin)) } // net/http can

// WriteHeader implements http.ResponseWriter.
func (w timedWriter) WriteHeader(status int) {
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w timedWriter) Write(p []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w timedWriter) Flush() { _ = w.FlushError() } // the next write fails too

// FlushError is what http.ResponseController calls.
func (w timedWriter) FlushError() error {
	w.extend()
	return w.control.Flush()
}

// Unwrap is what http.ResponseController calls.
func (w timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
