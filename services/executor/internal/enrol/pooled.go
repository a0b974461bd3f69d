package enrol

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

const (
	// answerWithin is how long one request with a pooled token waits. The registry drops requests of an
	// address that sends too many, as a router does that many servers are behind.
	answerWithin = 5 * time.Second
	// askAgain is the longest pause before the next request.
	askAgain = 3 * time.Second
)

// askPooled asks with a pooled token, again while there is no answer. The answer is sealed: the holders of the token
// share its login, so that each of them could read it.
func askPooled(
	ctx context.Context, conn *bus.Conn, cell string, q *registryv1.EnrolRequest,
) (*registryv1.EnrolResponse, error) {
	key, err := trust.NewSealKey()
	if err != nil {
		return nil, err
	}
	q.SealKey = key.Public()
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: cell, Server: q.ServerId})
	for {
		within, cancel := context.WithTimeout(ctx, answerWithin)
		answer, err := bus.Ask[*registryv1.EnrolResponse](within, conn, subject, q)
		cancel()
		if err == nil {
			return opened(key, answer)
		}
		if !fault.Is(err, fault.Unavailable) {
			return nil, err
		}
		if wakeup.Pause(ctx, rand.N(askAgain)) != nil {
			return nil, err
		}
	}
}

// opened returns the answer in a sealed one.
func opened(key trust.SealKey, sealed *registryv1.EnrolResponse) (*registryv1.EnrolResponse, error) {
	data, err := key.Open(sealed.GetSealed(), sealed.GetSealedBy())
	if err != nil {
		return nil, err
	}
	answer := &registryv1.EnrolResponse{}
	if err := proto.Unmarshal(data, answer); err != nil {
		return nil, fault.New(fault.Internal, "read the sealed answer: %w", err)
	}
	return answer, nil
}
