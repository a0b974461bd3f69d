package topology

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

// The verbs of intents.
const (
	VerbInstall      = "install"
	VerbUpgrade      = "upgrade"
	VerbRemove       = "remove"
	VerbRefresh      = "refresh"
	VerbDecommission = "decommission"
	VerbConfigure    = "configure"
	VerbUndo         = "undo"
)

// The kinds of reports.
const (
	ReportTask    = "task"
	ReportAgents  = "agents"
	ReportSysinfo = "sysinfo"
	ReportReceipt = "receipt"
)

// LiveTask is what a server says live about a task.
const LiveTask = "task"

// DefaultCell is the site of a server that was invited without one.
const DefaultCell = "main"

// IntentSubject is where an actor publishes an intent: garrison.intent.VERB.ACTOR.ID.
func IntentSubject(verb, actor, id string) string {
	return "garrison.intent." + verb + "." + actor + "." + id
}

// IntentAddress is what an intent's subject says.
type IntentAddress struct{ Verb, Actor, ID string }

// ParseIntentSubject reads an intent's subject. An id that is not a UUID is refused.
func ParseIntentSubject(subject string) (IntentAddress, error) {
	t, err := tokens(subject, "garrison.intent.", 3)
	if err != nil {
		return IntentAddress{}, err
	}
	return IntentAddress{Verb: t[0], Actor: t[1], ID: t[2]}, ident.Check("intent id", t[2])
}

// ServerAddress is where a server is in subjects.
type ServerAddress struct{ Cell, Server string }

func (a ServerAddress) String() string { return a.Cell + "." + a.Server }

// DesiredSubject is where a server's document is: garrison.desired.CELL.SERVER.
func DesiredSubject(a ServerAddress) string { return "garrison.desired." + a.String() }

// BellSubject rings when a server's document was written: garrison.bell.CELL.SERVER.
func BellSubject(a ServerAddress) string { return "garrison.bell." + a.String() }

// ReportSubject is where a server reports: garrison.report.CELL.SERVER.KIND.
func ReportSubject(a ServerAddress, kind string) string {
	return "garrison.report." + a.String() + "." + kind
}

// ParseReportSubject reads a report's subject.
func ParseReportSubject(subject string) (a ServerAddress, kind string, err error) {
	t, err := tokens(subject, "garrison.report.", 3)
	if err != nil {
		return ServerAddress{}, "", err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, t[2], nil
}

// BeatSubject is where a server says that it lives: garrison.beat.CELL.SERVER.
func BeatSubject(a ServerAddress) string { return "garrison.beat." + a.String() }

// LiveSubject is where a server says what it is doing: garrison.live.CELL.SERVER.WHAT.
func LiveSubject(a ServerAddress, what string) string {
	return "garrison.live." + a.String() + "." + what
}

// LiveSubjects matches what every server says that it is doing.
const LiveSubjects = "garrison.live.*.*.*"

// ParseLiveSubject reads the subject of a live word.
func ParseLiveSubject(subject string) (a ServerAddress, what string, err error) {
	t, err := tokens(subject, "garrison.live.", 3)
	if err != nil {
		return ServerAddress{}, "", err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, t[2], nil
}

// EnrolSubject is where an invited server asks for its credentials: garrison.enrol.CELL.SERVER.
func EnrolSubject(a ServerAddress) string { return "garrison.enrol." + a.String() }

// ParseServerSubject reads a subject that ends in CELL.SERVER behind a class: desired, bell, beat or enrol.
func ParseServerSubject(class, subject string) (ServerAddress, error) {
	t, err := tokens(subject, "garrison."+class+".", 2)
	if err != nil {
		return ServerAddress{}, err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, nil
}

// BlobSubject is where a chunk of a blob is: garrison.blob.SHA256.N.
func BlobSubject(digest []byte, chunk int) string {
	return "garrison.blob." + hex.EncodeToString(digest) + "." + strconv.Itoa(chunk)
}

// BlobSubjects matches every chunk of a blob.
func BlobSubjects(digest []byte) string { return "garrison.blob." + hex.EncodeToString(digest) + ".*" }

// FirstChunkSubjects matches the first chunk of every blob.
const FirstChunkSubjects = "garrison.blob.*.0"

// ParseBlobSubject reads a chunk's subject.
func ParseBlobSubject(subject string) (digest []byte, chunk int, err error) {
	t, err := tokens(subject, "garrison.blob.", 2)
	if err != nil {
		return nil, 0, err
	}
	if digest, err = hex.DecodeString(t[0]); err == nil {
		chunk, err = strconv.Atoi(t[1])
	}
	if err != nil {
		return nil, 0, fault.New(fault.Invalid, "subject %q is not a chunk's: %w", subject, err)
	}
	return digest, chunk, nil
}

// RollCallSubject is where every process of a service answers: garrison.rollcall.SERVICE. Only the service asks there.
func RollCallSubject(service string) string { return "garrison.rollcall." + service }

// APISubject is where a method is asked: garrison.api.SERVICE.ACCESS.METHOD.ACTOR.
func APISubject(service, access, method, actor string) string {
	return strings.Join([]string{"garrison.api", service, access, method, actor}, ".")
}

// ActorOf gives the last token of a subject, which the bus checked to be the caller's own name.
func ActorOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// TailSubject is where the ledger's new facts are told, without their data.
const TailSubject = "garrison.tail.>"

// QuarantineSubject is where a message goes that cannot be handled: garrison.quarantine.STREAM.
func QuarantineSubject(stream string) string { return "garrison.quarantine." + stream }

func tokens(subject, prefix string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(subject, prefix)
	t := strings.Split(rest, ".")
	if !ok || len(t) != n {
		return nil, fault.New(fault.Invalid, "subject %q: want %s and %d tokens", subject, prefix, n)
	}
	return t, nil
}
