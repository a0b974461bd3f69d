package failover

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
)

func TestAServerOfTheBusThatEndsByItselfEndsTheRunWithItsLog(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho the disk is full\nexit 3\n"
	if err := os.WriteFile(filepath.Join(bin, "garrisond"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := rig.New(rig.Options{Bin: bin, Dir: t.TempDir(), Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Fleet: f}
	err = guarded(t.Context(), f, func(ctx context.Context) error {
		if err := f.Members[1].Start(); err != nil {
			return err
		}
		return s.calm(ctx) // there is no CLI, so it asks until it is ended
	})
	if err == nil || !strings.Contains(err.Error(), "garrisond-2 ended by itself") ||
		!strings.HasSuffix(err.Error(), "the disk is full") {
		t.Errorf("got %v, want why the member ended", err)
	}
}

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

func TestATotalHasTheLongestTimesAndAllThatIsCounted(t *testing.T) {
	killed := func(member int, gap, waited time.Duration) Row {
		return Row{
			Loss: Loss{Killed, member}, Gap: gap, Waited: []time.Duration{waited}, Intents: 1,
			Wrong: Wrong{Offline: 1, Lost: 2, Unheard: 3, Doubled: 4, Reads: 5},
		}
	}
	got := Totals([]Row{{Loss: Loss{Kind: None}}, killed(0, 9, 7), killed(1, 8, 5)})
	want := []Row{{
		Loss: Loss{Kind: Killed}, Rows: 2, Gap: 9, Waited: []time.Duration{5, 7}, Intents: 2,
		Wrong: Wrong{Offline: 2, Lost: 4, Unheard: 6, Doubled: 8, Reads: 10},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
