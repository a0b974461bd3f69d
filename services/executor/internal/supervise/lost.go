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

// followed has the tokens of the processes that this executor follows. Their records may be lost meanwhile.
var followed sync.Map

// recordAgain writes the record of a running process again if it was deleted.
func (p *process) recordAgain(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r := p.record
	r.Ready = p.ready.Load()
	return r.write(path)
}

// looked has the run directories whose lost processes this executor looked for. It follows those that it started since,
// so it looks once: that reads the environment of every process of the machine.
var looked sync.Map

// endLost ends the processes of an agent of which nothing is recorded: its directory was deleted while they ran, and
// this executor was started since. They are not adopted, because what a process says about itself is no proof.
func endLost(s Spec) error {
	dir := filepath.Dir(s.Record)
	if _, done := looked.LoadOrStore(dir, true); done {
		return nil
	}
	lost, err := lostTokens(dir)
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
		looked.Delete(dir) // the next start tries again
	}
	return err
}

// lostTokens returns the tokens of running processes that were recorded in a run directory, and are no longer. The
// processes are looked for first: a start is recorded before its process exists.
func lostTokens(dir string) ([]string, error) {
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
		_, follows := followed.Load(token)
		return follows || slices.Contains(known, token)
	}), err
}
