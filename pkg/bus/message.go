package bus

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Message is a message on the bus.
type Message struct {
	Subject   string
	Header    map[string][]string
	Data      []byte
	Sequence  uint64    // its place in its stream, or 0
	Time      time.Time // when the stream stored it, or zero
	Delivered uint64    // how often it was delivered to this consumer, or 0
}

// Get returns the first value of a header, or "".
func (m Message) Get(header string) string { return nats.Header(m.Header).Get(header) }

// Announced returns the sequence of the stored message that a bell announces; 0 when it names none. It is what the
// sender wrote, and proves nothing.
func (m Message) Announced() uint64 {
	sequence, err := strconv.ParseUint(ofBus(m.Header, headerSequence), 10, 64)
	if err != nil {
		return 0
	}
	return sequence
}

// Pushed returns the message of a stream that the bus stored on a subject and sends with this one, as a bell does;
// false without one. Other senders can have messages of other subjects delivered here, as answers to their requests.
func (m Message) Pushed(subject string) (Message, bool) {
	if len(m.Data) == 0 || ofBus(m.Header, headerSubject) != subject {
		return Message{}, false
	}
	s, err := stored(&nats.Msg{Header: m.Header, Data: m.Data})
	return s, err == nil
}

// The bus writes where a stored message stands into headers, behind those of the publisher, who may have written the
// same ones. The publisher is a server or a service that may store this message and no other. So what the bus wrote is
// read from the last header of a name, never from the first, which Header.Get returns.

const (
	headerSequence = "Nats-Sequence" // the place in the stream of a message that was republished or read by direct get
	headerSubject  = "Nats-Subject"
	headerTime     = "Nats-Time-Stamp"
	headerLast     = "Nats-Last-Sequence" // of the message before it in the batch
	headerPending  = "Nats-Num-Pending"   // how many messages of the stream follow
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
