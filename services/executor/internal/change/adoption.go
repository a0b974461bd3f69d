package change

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Adoption is the process that became an agent without a restart.
type Adoption struct {
	Candidate string    `json:"candidate"`
	Pid       int       `json:"pid"`
	Start     uint64    `json:"start"` // in clock ticks since the boot
	Boot      string    `json:"boot"`
	StartedAt time.Time `json:"started_at"`
	Exe       string    `json:"exe"`
	ExeSHA256 []byte    `json:"exe_sha256,omitempty"`
	// Same reports that the program is the image's, so that Garrison may start it again.
	Same    bool      `json:"same,omitempty"`
	Sockets []string  `json:"sockets,omitempty"`
	At      time.Time `json:"at"`
	// Service is the systemd service whose main process it is; empty for another process. Systemd goes on to run it.
	Service string `json:"service,omitempty"`
	// Enabled reports that systemd starts the service with the machine.
	Enabled bool `json:"enabled,omitempty"`
}

// Foreign reports whether the process of an instance was adopted and is not as Garrison would start it: it runs another
// program than the image's, or is that of a service.
func (i *Instance) Foreign() bool {
	return i != nil && i.Adopted != nil && (!i.Adopted.Same || i.Adopted.Service != "")
}

// ServiceName returns the service of an adoption; empty for none.
func (a *Adoption) ServiceName() string {
	if a == nil {
		return ""
	}
	return a.Service
}

// Report returns an adoption as reports have it.
func (a *Adoption) Report() *serverv1.Adoption {
	if a == nil {
		return nil
	}
	out := &serverv1.Adoption{
		Candidate: a.Candidate, Pid: uint32(a.Pid), StartedAt: timestamppb.New(a.StartedAt), Exe: printable(a.Exe),
		ExeSha256: a.ExeSHA256, Same: a.Same, At: timestamppb.New(a.At), Service: a.Service,
	}
	for _, s := range a.Sockets {
		out.Sockets = append(out.Sockets, printable(s))
	}
	return out
}

func printable(s string) string { return strings.ToValidUTF8(s, "?") }
