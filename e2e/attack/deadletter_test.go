package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// deadLettersBounded has a third server leave a dead letter, then has the attacker leave many.
func deadLettersBounded(t *trial) string {
	other := t.enrol(t.T)
	t.invalidReports(other, 1, 1)
	t.eventually("the other server has a dead letter", func() error {
		if n := t.deadLetters()[topology.DeadLetterSubject(topology.Reports, other.address.String())]; n != 1 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	t.attacker = t.enrol(t.T)                  // the key of the flood is suspended
	t.invalidReports(t.attacker, 700, 100_000) // more than the stream holds of that size
	last := t.enrol(t.T)
	t.invalidReports(last, 1, 1)
	t.eventually("a later one is there, too", func() error {
		if n := t.deadLetters()[topology.DeadLetterSubject(topology.Reports, last.address.String())]; n != 1 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	letters := t.deadLetters()
	own := letters[topology.DeadLetterSubject(topology.Reports, t.attacker.address.String())]
	if own > topology.DeadLettersKept {
		t.Errorf("%d dead letters of the attacker, want at most %d", own, topology.DeadLettersKept)
	}
	if letters[topology.DeadLetterSubject(topology.Reports, other.address.String())] != 1 {
		t.Error("the other server's dead letter is gone")
	}
	return fmt.Sprintf("%d dead letters of the attacker, the other's is kept", own)
}

func (t *trial) invalidReports(from *server, n, size int) {
	t.Helper()
	c := t.connect(from.login)
	for range n {
		subject := topology.ReportSubject(from.address, topology.ReportTask)
		if err := c.Publish(subject, bytes.Repeat([]byte{0xff}, size)); err != nil {
			t.Fatal(err)
		}
		if n > 1 {
			time.Sleep(5 * time.Millisecond) // a key that sends too much in a second is suspended
		}
	}
	if err := c.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// deadLetters returns how many dead letters there are on each subject.
func (t *trial) deadLetters() map[string]int {
	t.Helper()
	c := t.connect(t.service(topology.UserProvision))
	m, err := c.Request("$JS.API.STREAM.INFO."+topology.DeadLetter, []byte(`{"subjects_filter":">"}`), 5*time.Second)
	var info struct {
		State struct{ Subjects map[string]int }
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &info)
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}
