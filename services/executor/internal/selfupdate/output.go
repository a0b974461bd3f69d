package selfupdate

import (
	"slices"
	"strings"
	"sync"
)

const (
	maxOutput  = 4 << 10
	maxBecause = 1 << 10 // bytes of output in a reason
)

// lastOutput keeps the end of what a process wrote.
type lastOutput struct {
	mu  sync.Mutex
	all []byte
}

func (o *lastOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, p...)
	o.all = o.all[max(0, len(o.all)-maxOutput):]
	return len(p), nil
}

func (o *lastOutput) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

func (o *lastOutput) String() string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(o.Bytes()), "\x00", ""), "?")
}

// because returns the last lines, on one line, for the end of a reason.
func (o *lastOutput) because() string {
	var last []string
	size := 0
	for _, line := range slices.Backward(strings.Split(o.String(), "\n")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		line = line[:min(len(line), maxBecause)]
		if size += len(line); size > maxBecause {
			break
		}
		last = append(last, strings.ToValidUTF8(line, "?"))
	}
	if last == nil {
		return "; it printed nothing"
	}
	slices.Reverse(last)
	return "; it printed last: " + strings.Join(last, "; ")
}
