package topology

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
