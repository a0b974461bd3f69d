package bus

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestALoginThatIsRefusedIsDenied(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"the client's error":             {nats.ErrAuthorization, fault.Denied},
		"a server's text for an old JWT": {errors.New("nats: User Authentication Expired"), fault.Denied},
		"no server there":                {nats.ErrNoServers, fault.Unavailable},
	} {
		t.Run(text, func(t *testing.T) {
			if got := fault.KindOf(connectError("nats://bus", c.err)); got != c.want {
				t.Errorf("kind %v, want %v", got, c.want)
			}
		})
	}
}
