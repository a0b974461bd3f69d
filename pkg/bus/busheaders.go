package bus

import "github.com/nats-io/nats.go"

// The bus writes where a stored message stands into headers, behind those of the publisher, who may have written the
// same ones. The publisher is a server or a service that may store this message and no other. So what the bus wrote is
// read from the last header of a name, never from the first, which Header.Get returns.

const (
	headerSequence = "Nats-Sequence" // the place in the stream of a message that was republished or read by direct get
	headerSubject  = "Nats-Subject"
	headerTime     = "Nats-Time-Stamp"
	headerLast     = "Nats-Last-Sequence" // of the message before it in the batch
	headerStatus   = "Status"
)

// ofBus returns a header that the bus wrote; empty without one.
func ofBus(h nats.Header, name string) string {
	if all := h[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// statusOf returns the status of an answer without a message; empty for a stored message, whatever its publisher wrote:
// the bus says of each stored message, and of nothing else, where it stands.
func statusOf(h nats.Header) string {
	if len(h[headerSequence]) > 0 {
		return ""
	}
	return h.Get(headerStatus)
}
