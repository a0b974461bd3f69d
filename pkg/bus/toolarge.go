package bus

import (
	"errors"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// tooLarge returns a refusal in place of an answer that the bus cannot carry, when that is why it could not be sent;
// otherwise nil. Without it the caller would wait for an answer until its time is up.
func (c *Conn) tooLarge(sent error, size int) error {
	if !errors.Is(sent, nats.ErrMaxPayload) {
		return nil
	}
	return fault.Refusef(fault.Invalid, code.AnswerTooLarge, "the answer has %d bytes, and the bus carries %d",
		size, c.nc.MaxPayload()).Try("a smaller part of it: --limit 10, or one thing by its id")
}

// longRefusal is the size from which on a refusal is shortened.
const longRefusal = 64 << 10

// short returns a refusal that always fits into a message.
func short(r *apiv1.Refusal) *apiv1.Refusal {
	out := proto.CloneOf(r)
	for _, text := range []*string{&out.Code, &out.Component, &out.Message, &out.Nearest, &out.Try} {
		*text = oneLine(*text)
	}
	return out
}
