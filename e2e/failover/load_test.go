package failover

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
)

func TestAnIntentThatIsNeverAcknowledgedIsWrong(t *testing.T) {
	conn := bustest.Start(t).Dial(t, "ada")
	l := &load{site: &site{options: Options{Within: 50 * time.Millisecond}}, client: client.New(conn, time.Second)}
	l.client.Close()
	l.one(t.Context(), "s1")
	var row Row
	l.sum(&row)
	if row.Intents = 1; row.Wrong != (Wrong{Unheard: 1}) || Judge([]Row{row}) == nil {
		t.Errorf("%+v passes; want one that is unheard", row)
	}
}
