package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/services/executor/internal/kin"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Format numbers the records. Those from before there were numbers are read.
var Format = format.Spec{Kind: "process record", Now: 1, Floor: 1}

// record is what a slot's file says about its process.
type record struct {
	format.Stamp
	Token     string    `json:"token"` // carried by the process; written before it is started
	Boot      string    `json:"boot"`
	Pid       int       `json:"pid"` // 0: about to be started
	Start     uint64    `json:"start"`
	StartedAt time.Time `json:"started_at"`
	Ready     bool      `json:"ready,omitempty"` // it was proven after it said READY=1
	Left      []string  `json:"left,omitempty"`  // the tokens of earlier starts of which something did not end
}

// maxLeft is how many starts are known of which something is left.
const maxLeft = 8

// RecordName is the name of the record of an agent's version.
func RecordName(image string) string { return recordPrefix + image + recordSuffix }

const recordPrefix, recordSuffix = "process-", ".json"

func isRecord(name string) bool {
	return strings.HasPrefix(name, recordPrefix) && strings.HasSuffix(name, recordSuffix)
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
	return r, true, Format.Check(path, r.Stamp)
}

// recordBytes is the size of every record: one block, so that a record can be written again
// in its own place when the disk has no room for another one.
const recordBytes = 4 << 10

// write replaces the record, whole or not at all. On a full disk it overwrites the record
// that is there, which takes one write of one block: an agent that ends is started again.
func (r record) write(path string) error {
	r.Stamp = Format.Stamp()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data = append(data, bytes.Repeat([]byte{' '}, max(0, recordBytes-len(data)))...)
	err = layout.Write(path, data, 0o600)
	if errors.Is(err, syscall.ENOSPC) && layout.Overwrite(path, data) == nil {
		return nil
	}
	return err
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
		r.Start, _ = kin.StartTime(pid)
	}
	start, ok := kin.StartTime(r.Pid)
	return r, ok && start == r.Start
}
