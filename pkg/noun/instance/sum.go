package instance

import (
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Sum is the sum of what is observed of a server's instances: of each its agent, image, configuration and health. An
// executor makes it of its list of agents, and the registry of its records. Equal sums mean that the records are what
// the executor saw. The order of the instances does not matter. The zero value is the sum of none.
type Sum uint64

// AddRecord adds what is recorded of an instance.
func (s *Sum) AddRecord(i *instancev1.Instance) {
	s.add(i.GetAgent(), i.GetObserved(), i.GetObservedConfigurationDigest(), i.GetHealth())
}

// AddFound adds an agent that an executor found. What its inventory does not explain is not an instance.
func (s *Sum) AddFound(f *reportv1.Found) {
	if f.GetTrace() == serverv1.Trace_TRACE_UNSPECIFIED {
		s.add(f.GetAgent(), f.GetImage(), f.GetConfigurationDigest(), f.GetHealth())
	}
}

// add adds an agent, unless it is not there.
func (s *Sum) add(agent string, image *imagev1.Ref, configuration []byte, health instancev1.Health) {
	if image == nil || health == instancev1.Health_HEALTH_ABSENT {
		return
	}
	h := newHash(agent)
	h = h.text(image.Id)
	h = h.bytes(image.Digest)
	h = h.bytes(configuration)
	*s += Sum(h.bytes([]byte{byte(health)}))
}

// hash is FNV-1a of 64 bits over texts that end with a zero byte.
type hash uint64

const (
	hashStart hash = 14695981039346656037
	hashPrime hash = 1099511628211
)

func newHash(text string) hash { return hashStart.text(text) }

func (h hash) text(text string) hash {
	for n := range len(text) {
		h = (h ^ hash(text[n])) * hashPrime
	}
	return h * hashPrime
}

func (h hash) bytes(b []byte) hash {
	for _, c := range b {
		h = (h ^ hash(c)) * hashPrime
	}
	return h * hashPrime
}
