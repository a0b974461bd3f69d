package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// starts is what a supervisor knows of starts beside their records, which may be lost. The zero value is ready.
type starts struct {
	followed sync.Map // the tokens of the processes that it follows
	// looked has the run directories in which it looked for processes whose records are lost. It looks once, because
	// that reads the environment of every process of the machine; those that it starts from then on, it follows.
	looked sync.Map
}

// recordAgain writes the record of a running process again if it was deleted.
func (p *process) recordAgain(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r := p.record
	r.Ready = p.ready.Load()
	return r.write(path)
}

// endLost ends the processes of an agent whose records are lost: its directory was deleted while they ran, and this
// executor was started since. They are not adopted, because what a process says about itself is no proof.
func (st *starts) endLost(s Spec) error {
	dir := filepath.Dir(s.Record)
	if _, done := st.looked.LoadOrStore(dir, true); done {
		return nil
	}
	lost, err := st.lostTokens(dir)
	for _, token := range lost {
		_, failed := proctree.Signal(token, unix.SIGTERM, nil)
		err = errors.Join(err, failed)
	}
	end := time.Now().Add(s.StopWithin())
	for _, token := range lost {
		proctree.Await(token, time.Until(end))
		err = errors.Join(err, proctree.End(token, restWithin))
	}
	if err != nil {
		st.looked.Delete(dir) // the next start tries again
	}
	return err
}

// lostTokens returns the tokens of running processes that were recorded in a run directory, and are no longer. The
// processes are looked for first: a start is recorded before its process exists.
func (st *starts) lostTokens(dir string) ([]string, error) {
	running, err := proctree.Recorded(dir)
	if len(running) == 0 {
		return nil, err
	}
	var known []string
	for _, path := range records(dir) {
		r, ok, err := readRecord(path)
		if err != nil {
			return nil, err // it may be the record of any of them
		}
		if ok {
			known = append(append(known, r.Token), r.Left...)
		}
	}
	return slices.DeleteFunc(running, func(token string) bool {
		_, follows := st.followed.Load(token)
		return follows || slices.Contains(known, token)
	}), err
}
