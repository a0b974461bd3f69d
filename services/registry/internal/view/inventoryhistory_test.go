package view

import (
	"fmt"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// machine is the state of the disk and the processes.
type machine struct {
	instance   string
	image      *imagev1.Ref
	digest     []byte
	generation uint64
	reason     string    // why the agent is bad; empty for good
	change     *changing // begun and not ended
	stopped    bool      // the old version is stopped for the change
	reports    uint64
	last       *reportv1.AgentsReport
}

// asBefore is the machine after a rollback.
func (m machine) asBefore() machine {
	return machine{instance: m.instance, image: m.image, digest: m.digest, generation: m.generation, reason: m.reason}
}

// images. Those with an odd number never become ready.
func imageNumber(n int) *imagev1.Ref {
	return &imagev1.Ref{Id: fmt.Sprint("image ", n), Digest: []byte{byte(n)}, Version: fmt.Sprint(n)}
}

func works(r *imagev1.Ref) bool { return r.Digest[0]%2 == 0 }
