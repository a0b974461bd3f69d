package dispatcher

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestAnInstallTravelsFromWantedToSucceeded(t *testing.T) {
	w := newWorld(t)
	d, _ := w.start(Config{})
	w.execute(nil)
	s := serverID(1)
	w.enrol(s)
	img := w.image("shipper", "1.0.0")
	began := time.Now()
	w.want(s, "shipper", 1, img)
	got := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	t.Logf("took %v", time.Since(began))
	if got.Verb != taskv1.Verb_VERB_INSTALL {
		t.Errorf("verb is %v, want install", got.Verb)
	}
	bustest.Eventually(t, "the entry names no task any more", func() bool {
		e := w.document(s).GetEntries()
		return len(e) == 1 && e[0].TaskId == "" && e[0].Image.GetId() == img.Id
	})
}
