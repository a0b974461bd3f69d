package topology

import (
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// The classes of subjects. Beside each builder below stands the pattern that matches all
// subjects of its class; streams, permissions and subscriptions use these patterns.
const (
	intents    = "garrison.intent."
	desired    = "garrison.desired."
	bell       = "garrison.bell."
	report     = "garrison.report."
	beat       = "garrison.beat."
	answer     = "garrison.answer."
	gone       = "garrison.gone."
	live       = "garrison.live."
	enrol      = "garrison.enrol."
	lobby      = "garrison.lobby."
	renew      = "garrison.renew."
	blob       = "garrison.blob."
	chunk      = "garrison.chunk."
	content    = "garrison.content."
	logOpen    = "garrison.logopen."
	logRead    = "garrison.logread."
	rollCall   = "garrison.rollcall."
	api        = "garrison.api."
	deadLetter = "garrison.deadletter."
)

// anyToken matches one token of a subject.
const anyToken = "*"

// The verbs of intents.
const (
	VerbInstall      = "install"
	VerbUpgrade      = "upgrade"
	VerbRemove       = "remove"
	VerbRefresh      = "refresh"
	VerbDecommission = "decommission"
	VerbConfigure    = "configure"
	VerbUndo         = "undo"
	VerbAdopt        = "adopt"
	VerbRelease      = "release"
	VerbReinstall    = "reinstall"
	VerbRollout      = "rollout"
)

// IntentSubject returns the subject on which an actor publishes an intent: garrison.intent.VERB.ACTOR.ID.
func IntentSubject(verb, actor, id string) string { return intents + verb + "." + actor + "." + id }

// IntentSubjects matches every intent.
const IntentSubjects = intents + "*.*.*"

// IntentAddress is the content of an intent's subject.
type IntentAddress struct{ Verb, Actor, ID string }

// ParseIntentSubject reads an intent's subject. It refuses an id that is not a UUID.
func ParseIntentSubject(subject string) (IntentAddress, error) {
	t, err := tokens(subject, intents, 3)
	if err != nil {
		return IntentAddress{}, err
	}
	return IntentAddress{Verb: t[0], Actor: t[1], ID: t[2]}, ident.Check("intent id", t[2])
}

// LedgerSubjects matches every fact. Package ledger builds and reads their subjects.
const LedgerSubjects = ledger.AllSubjects

// TailSubject is where the ledger's new facts are announced, with their bodies.
const TailSubject = "garrison.tail.>"

// ServerAddress is the cell and the id of a server, as its subjects hold them.
type ServerAddress struct{ Cell, Server string }

// DefaultCell is the cell of a server that was invited without one.
const DefaultCell = "main"

func (a ServerAddress) String() string { return a.Cell + "." + a.Server }

// DesiredSubject returns the subject of a server's document: garrison.desired.CELL.SERVER.
func DesiredSubject(a ServerAddress) string { return desired + a.String() }

// DesiredSubjects matches the documents of all servers.
const DesiredSubjects = desired + "*.*"

// BellSubject returns the subject that announces a server's new document: garrison.bell.CELL.SERVER.
func BellSubject(a ServerAddress) string { return bell + a.String() }

// BellSubjects matches the bells of all servers.
const BellSubjects = bell + "*.*"

// ParseBellSubject reads a bell's subject.
func ParseBellSubject(subject string) (ServerAddress, error) { return parseServer(bell, subject) }

// The kinds of reports.
const (
	ReportTask    = "task"
	ReportAgents  = "agents"
	ReportSysinfo = "sysinfo"
	ReportReceipt = "receipt"
	// ReportCandidates has no consumer: the registry reads the last one when it is asked.
	ReportCandidates = "candidates"
)

// ReportSubject returns the subject of a server's reports: garrison.report.CELL.SERVER.KIND.
func ReportSubject(a ServerAddress, kind string) string { return report + a.String() + "." + kind }

// ReportSubjects matches all reports of all servers.
const ReportSubjects = report + "*.*.*"

// ReportsOf matches the reports of one kind of all servers.
func ReportsOf(kind string) string { return ReportSubject(ServerAddress{anyToken, anyToken}, kind) }

// ParseReportSubject reads a report's subject.
func ParseReportSubject(subject string) (a ServerAddress, kind string, err error) {
	t, err := tokens(subject, report, 3)
	if err != nil {
		return ServerAddress{}, "", err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, t[2], nil
}

// BeatSubject returns the subject of a server's beats: garrison.beat.CELL.SERVER.
func BeatSubject(a ServerAddress) string { return beat + a.String() }

// BeatSubjects matches the beats of all servers.
const BeatSubjects = beat + "*.*"

// ParseBeatSubject reads a beat's subject.
func ParseBeatSubject(subject string) (ServerAddress, error) { return parseServer(beat, subject) }

// AnswerSubject returns the subject on which the registry answers a server's beats: garrison.answer.CELL.SERVER.
func AnswerSubject(a ServerAddress) string { return answer + a.String() }

// AnswerSubjects matches the answers to all servers.
const AnswerSubjects = answer + "*.*"

// GoneSubject returns the subject on which the service access says that the last connection of a server ended:
// garrison.gone.SERVER.
func GoneSubject(server string) string { return gone + server }

// GoneSubjects matches what is said of all servers.
const GoneSubjects = gone + "*"

// ParseGoneSubject returns the server that such a subject names.
func ParseGoneSubject(subject string) (server string, err error) {
	t, err := tokens(subject, gone, 1)
	if err != nil {
		return "", err
	}
	return t[0], nil
}

// LiveTask is the kind of live message about the progress of a task.
const LiveTask = "task"

// LiveSubject returns the subject of a server's live messages: garrison.live.CELL.SERVER.WHAT.
func LiveSubject(a ServerAddress, what string) string { return live + a.String() + "." + what }

// LiveSubjects matches the live messages of all servers.
const LiveSubjects = live + "*.*.*"

// ParseLiveSubject reads the subject of a live message.
func ParseLiveSubject(subject string) (a ServerAddress, what string, err error) {
	t, err := tokens(subject, live, 3)
	if err != nil {
		return ServerAddress{}, "", err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, t[2], nil
}

// EnrolSubject returns the subject on which an invited server requests its credentials: garrison.enrol.CELL.SERVER.
func EnrolSubject(a ServerAddress) string { return enrol + a.String() }

// EnrolSubjects matches the requests of all invited servers.
const EnrolSubjects = enrol + "*.*"

// ParseEnrolSubject reads the subject of a request to enrol.
func ParseEnrolSubject(subject string) (ServerAddress, error) { return parseServer(enrol, subject) }

// KnockSubject returns the subject on which a machine without a token asks to join: garrison.lobby.KEY, the public half
// of the key that it made for itself.
func KnockSubject(publicKey string) string { return lobby + publicKey }

// ParseKnockSubject reads the subject of a request of a machine without a token.
func ParseKnockSubject(subject string) (publicKey string, err error) {
	t, err := tokens(subject, lobby, 1)
	if err != nil {
		return "", err
	}
	return t[0], nil
}

// KnockSubjects matches the requests of all machines without a token.
const KnockSubjects = lobby + anyToken

// RenewSubject returns the subject on which a server requests that its key is signed again:
// garrison.renew.CELL.SERVER.
func RenewSubject(a ServerAddress) string { return renew + a.String() }

// RenewSubjects matches the requests of all servers.
const RenewSubjects = renew + "*.*"

// ParseRenewSubject reads the subject of a request to renew.
func ParseRenewSubject(subject string) (ServerAddress, error) { return parseServer(renew, subject) }

// RollCallSubject returns the subject on which every process of a service answers:
// garrison.rollcall.SERVICE. Only the service itself asks there.
func RollCallSubject(service string) string { return rollCall + service }

// APISubject returns the subject of a method: garrison.api.SERVICE.ACCESS.METHOD.ACTOR.
func APISubject(service, access, method, actor string) string {
	return api + strings.Join([]string{service, access, method, actor}, ".")
}

// ServiceSubjects matches every method of a service, by every actor.
func ServiceSubjects(service string) string { return APISubject(service, anyToken, anyToken, anyToken) }

// ActorOf returns the last token of a subject. The bus has checked that it is the caller's own name.
func ActorOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// DeadLetterSubject returns the subject of a stream's messages of one sender that no handler could
// process: garrison.deadletter.STREAM.SENDER.
func DeadLetterSubject(stream, sender string) string { return deadLetter + stream + "." + sender }

// DeadLettersOf matches the dead letters of a stream.
func DeadLettersOf(stream string) string { return DeadLetterSubject(stream, ">") }

// DeadLetterSubjects matches the dead letters of all streams and senders.
const DeadLetterSubjects = deadLetter + ">"

// SenderOf returns the sender of a message that a service consumes: CELL.SERVER of a report, the actor of
// an intent. The bus has checked that it is the publisher's own name. Other subjects are their own sender.
func SenderOf(subject string) string {
	if a, _, err := ParseReportSubject(subject); err == nil {
		return a.String()
	}
	if t, err := tokens(subject, intents, 3); err == nil {
		return t[1]
	}
	return subject
}

// Matches reports whether a pattern matches a subject, by the rules of NATS. A * in the subject is matched by * and >
// only.
func Matches(pattern, subject string) bool {
	for {
		p, rest, more := strings.Cut(pattern, ".")
		s, subjectRest, subjectMore := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s:
			return false
		case !more || !subjectMore:
			return more == subjectMore
		}
		pattern, subject = rest, subjectRest
	}
}

// parseServer reads a subject of CELL.SERVER behind a prefix.
func parseServer(prefix, subject string) (ServerAddress, error) {
	t, err := tokens(subject, prefix, 2)
	if err != nil {
		return ServerAddress{}, err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, nil
}

func tokens(subject, prefix string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(subject, prefix)
	t := strings.Split(rest, ".")
	if !ok || len(t) != n {
		return nil, fault.New(fault.Invalid, "subject %q: want %s and %d tokens", subject, prefix, n)
	}
	return t, nil
}

// LogOpenSubject returns the subject on which the registry asks a server to let a person read the output of an agent:
// garrison.logopen.CELL.SERVER.
func LogOpenSubject(a ServerAddress) string { return logOpen + a.String() }

// LogOpenSubjects matches those requests to all servers.
const LogOpenSubjects = logOpen + "*.*"

// LogReader is a person who reads in a session that the registry opened.
type LogReader struct{ Actor, Session string }

// LogReadSubject returns the subject on which a person reads the output of an agent from its server:
// garrison.logread.CELL.SERVER.ACTOR.SESSION.
func LogReadSubject(a ServerAddress, r LogReader) string {
	return logRead + a.String() + "." + r.Actor + "." + r.Session
}

// LogReadSubjects matches the reading requests of everybody at all servers.
const LogReadSubjects = logRead + "*.*.*.*"

// LogReadsOf matches the reading requests of everybody at one server.
func LogReadsOf(a ServerAddress) string { return LogReadSubject(a, LogReader{anyToken, anyToken}) }

// ParseLogReadSubject reads the subject of a reading request.
func ParseLogReadSubject(subject string) (ServerAddress, LogReader, error) {
	t, err := tokens(subject, logRead, 4)
	if err != nil {
		return ServerAddress{}, LogReader{}, err
	}
	return ServerAddress{Cell: t[0], Server: t[1]}, LogReader{Actor: t[2], Session: t[3]}, nil
}
