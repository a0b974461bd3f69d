package view

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/shallow"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Facts are decoded one by one, so equal values in them are separate in memory. Most instances want one of a few images
// with one of a few configurations, for one of a few intents: the view keeps each such value once. Nothing changes a
// part of a record in place, so that records may share it, and a list may write one that it copied without its parts
// while the next fact is folded.

// mostShared bounds how many values of a kind are known for sharing. Beyond, all are forgotten, and later ones are
// shared among themselves.
const mostShared = 10_000

// pool is the values of a kind that records share.
type pool[K comparable, V any] map[K]V

// of returns the value that is shared under a key: that of the first call.
func (p pool[K, V]) of(key K, value V) V {
	if have, ok := p[key]; ok {
		return have
	}
	if len(p) >= mostShared {
		clear(p)
	}
	p[key] = value
	return value
}

type (
	refKey struct{ id, version, digest string }
	moment struct {
		seconds int64
		nanos   int32
	}
	beforeKey struct {
		image         *imagev1.Ref
		configuration *instancev1.Configuration
		same          bool
	}
	diskKey struct {
		mount, kind string
		bytes       uint64
	}
)

// shared is the values that servers and instances share.
type shared struct {
	texts          pool[string, string]
	refs           pool[refKey, *imagev1.Ref]
	times          pool[moment, *timestamppb.Timestamp]
	configurations pool[string, *instancev1.Configuration] // by digest; equal in everything, or not shared
	befores        pool[beforeKey, *instancev1.Before]
	labels         pool[string, map[string]string]
	platforms      pool[[2]string, *serverv1.Platform]
	disks          pool[diskKey, *serverv1.Disk]
}

func newShared() shared {
	return shared{
		pool[string, string]{}, pool[refKey, *imagev1.Ref]{}, pool[moment, *timestamppb.Timestamp]{},
		pool[string, *instancev1.Configuration]{}, pool[beforeKey, *instancev1.Before]{},
		pool[string, map[string]string]{}, pool[[2]string, *serverv1.Platform]{}, pool[diskKey, *serverv1.Disk]{},
	}
}

// instance replaces the values of an instance's record by equal ones that other records have.
func (s *shared) instance(i *instancev1.Instance) {
	if i == nil {
		return
	}
	i.Wanted, i.Observed, i.Failed = s.ref(i.Wanted), s.ref(i.Observed), s.ref(i.Failed)
	i.Configuration = s.configuration(i.Configuration)
	if digest := i.Configuration.GetDigest(); bytes.Equal(digest, i.ObservedConfigurationDigest) {
		i.ObservedConfigurationDigest = digest
	}
	i.Before = s.before(i.Before)
	i.Kept = replaced(i.Kept, s.kept)
	i.Since, i.ObservedAt, i.ObservedUntil = s.time(i.Since), s.time(i.ObservedAt), s.time(i.ObservedUntil)
	for _, text := range []*string{
		&i.IntentId, &i.Reason, &i.ObservedReason, &i.ObservedCode, &i.TaskCode, &i.TaskWaits,
		&i.AdoptCandidate,
	} {
		*text = s.text(*text)
	}
}

// server replaces the values of a server's record by equal ones that other records have.
func (s *shared) server(r *serverv1.Server) {
	r.Since, r.EnrolledAt = s.time(r.Since), s.time(r.EnrolledAt)
	r.CredentialsSince, r.Labels = s.time(r.CredentialsSince), s.labelled(r.Labels)
	for _, text := range []*string{&r.Cell, &r.Environment, &r.Reason} {
		*text = s.text(*text)
	}
	r.Sysinfo = s.sysinfo(r.Sysinfo, r.Name)
}

func (s *shared) sysinfo(have *serverv1.Sysinfo, name string) *serverv1.Sysinfo {
	if have == nil {
		return nil
	}
	i := shallow.Copy(have)
	i.Platform, i.Disks = s.platform(i.Platform), replaced(i.Disks, s.disk)
	for _, text := range []*string{&i.Kernel, &i.Distribution, &i.ProcessorModel, &i.ExecutorVersion} {
		*text = s.text(*text)
	}
	if i.Hostname == name {
		i.Hostname = name
	}
	return i
}

// replaced returns a list with its elements replaced: another one, unless they stay the same.
func replaced[T comparable](list []T, by func(T) T) []T {
	out := list
	for n, element := range list {
		next := by(element)
		if next == element {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[n] = next
	}
	return out
}

func (s *shared) kept(k *imagev1.Kept) *imagev1.Kept {
	image, since := s.ref(k.Image), s.time(k.Since)
	if image == k.Image && since == k.Since {
		return k
	}
	next := shallow.Copy(k)
	next.Image, next.Since = image, since
	return next
}

// labelled returns the labels that servers with the same ones share.
func (s *shared) labelled(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return labels
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%q=%q ", name, labels[name])
	}
	return s.labels.of(key.String(), labels)
}

func (s *shared) platform(p *serverv1.Platform) *serverv1.Platform {
	if p == nil || len(p.ProtoReflect().GetUnknown()) > 0 {
		return p
	}
	return s.platforms.of([2]string{p.Os, p.Arch}, p)
}

func (s *shared) disk(d *serverv1.Disk) *serverv1.Disk {
	if d == nil || len(d.ProtoReflect().GetUnknown()) > 0 {
		return d
	}
	return s.disks.of(diskKey{d.Mount, d.Kind, d.SizeBytes}, d)
}

func (s *shared) text(text string) string {
	if text == "" {
		return ""
	}
	return s.texts.of(text, text)
}

func (s *shared) ref(r *imagev1.Ref) *imagev1.Ref {
	if r == nil || len(r.ProtoReflect().GetUnknown()) > 0 {
		return r
	}
	if have, ok := s.refs[refKey{r.Id, r.Version, string(r.Digest)}]; ok { // which allocates nothing
		return have
	}
	return s.refs.of(refKey{r.Id, r.Version, string(r.Digest)}, r)
}

func (s *shared) time(at *timestamppb.Timestamp) *timestamppb.Timestamp {
	if at == nil || len(at.ProtoReflect().GetUnknown()) > 0 {
		return at
	}
	return s.times.of(moment{at.Seconds, at.Nanos}, at)
}

func (s *shared) configuration(c *instancev1.Configuration) *instancev1.Configuration {
	if c == nil || len(c.ProtoReflect().GetUnknown()) > 0 {
		return c
	}
	have, ok := s.configurations[string(c.Digest)]
	switch {
	case !ok:
		return s.configurations.of(string(c.Digest), c)
	case have == c, maps.Equal(have.Own, c.Own) && maps.Equal(have.Metadata, c.Metadata):
		return have
	}
	return c
}

func (s *shared) before(b *instancev1.Before) *instancev1.Before {
	if b == nil || len(b.ProtoReflect().GetUnknown()) > 0 {
		return b
	}
	key := beforeKey{s.ref(b.Image), s.configuration(b.Configuration), b.Same}
	if key.image != b.Image || key.configuration != b.Configuration {
		b = &instancev1.Before{Image: key.image, Configuration: key.configuration, Same: key.same}
	}
	return s.befores.of(key, b)
}
