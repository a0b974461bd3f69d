package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// record is what a slot's file says about its process.
type record struct {
	Token     string    `json:"token"` // carried by the process; written before it is started
	Boot      string    `json:"boot"`
	Pid       int       `json:"pid"` // 0: about to be started
	Start     uint64    `json:"start"`
	StartedAt time.Time `json:"started_at"`
}

func readRecord(path string) (record, bool, error) {
	var r record
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read process record: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, false, fmt.Errorf("read process record %s: %w", path, err)
	}
	return r, true, nil
}

func (r record) write(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return layout.Write(path, data, 0o600)
}

// find gives the process that the record is about, if it still runs.
func (r record) find() (record, bool) {
	if r.Boot != bootID() {
		return r, false
	}
	if r.Pid == 0 {
		pid, err := findToken(r.Token)
		if err != nil {
			return r, false
		}
		r.Pid = pid
		r.Start, _ = startTime(pid)
	}
	start, ok := startTime(r.Pid)
	return r, ok && start == r.Start
}
