package failover

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
)

func TestAnIntentThatIsNeverAcknowledgedIsWrong(t *testing.T) {
	conn := bustest.Start(t).Dial(t, "ada")
	c := client.New(conn, time.Second)
	s := &site{
		Fleet:   &rig.Fleet{Intents: load.Intents{Client: c}},
		options: Options{Within: 50 * time.Millisecond}, client: c,
	}
	l := &published{site: s, cancel: func() {}}
	c.Close()
	l.one(t.Context(), "s1")
	var row Row
	l.stop(&row)
	if row.Intents = 1; row.Wrong != (Wrong{Unheard: 1}) || Judge([]Row{row}) == nil {
		t.Errorf("%+v passes; want one that is unheard", row)
	}
}
