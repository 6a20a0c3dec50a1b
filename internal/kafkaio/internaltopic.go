package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// internalTopic is a topic of our own: what it must be like so that nothing in it
// is lost before we say so.
type internalTopic struct {
	name string
	// what it is, in the words of the guide.
	what string
	// partitions is how many it is made with. With exact it must have as many, for
	// its partitions belong to others of the same number.
	partitions int32
	exact      bool
	// grown, if it is not nil, is told how many there were when some were added.
	grown func(had int32)
	// settings are those it must have.
	settings map[string]string
	// leastBytes is how large a batch it must take.
	leastBytes int32
}

// kept are the settings of a topic from which nobody but its owner deletes. Its
// records are needed for a span of stream time, which says nothing of wall time.
func kept() map[string]string {
	return map[string]string{
		"cleanup.policy":         "delete",
		"retention.ms":           "-1",
		"retention.bytes":        "-1",
		"message.timestamp.type": "CreateTime",
	}
}

// anyTime adds the settings that let in records of all times. Brokers before 3.6
// have neither, and let them in unless they are told otherwise.
func anyTime(settings map[string]string) map[string]string {
	for _, name := range timeLimits {
		settings[name] = strconv.FormatInt(math.MaxInt64, 10)
	}
	return settings
}

var timeLimits = []string{"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}

// ensureInternal creates the topic where it is missing, and checks it where it is
// not. With fix it corrects settings that are wrong and adds partitions; it never
// takes any away, since the records are where they are.
func ensureInternal(ctx context.Context, adm *kadm.Client, want internalTopic, fix bool) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	details, err := adm.ListTopics(ctx, want.name)
	if err != nil {
		return fmt.Errorf("look at %s %q: %w", want.what, want.name, err)
	}
	detail, ok := details[want.name]
	switch {
	case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
		if detail, err = want.create(ctx, adm); err != nil {
			return err
		}
	case detail.Err != nil:
		return fmt.Errorf("look at %s %q: %w", want.what, want.name, detail.Err)
	}
	if err := want.fit(ctx, adm, int32(len(detail.Partitions)), fix); err != nil {
		return err
	}
	found, err := topicConfigs(ctx, adm, want.name)
	if err != nil {
		return err
	}
	wrong := want.wrong(found[want.name])
	if len(wrong) == 0 {
		return nil
	}
	if fix {
		return want.correct(ctx, adm, wrong)
	}
	return hinted("add --fix-topics to correct it, or set it with kafka-configs.sh",
		"%s %q has settings under which it loses or refuses records: %s", want.what, want.name, want.differences(wrong, found[want.name]))
}

// fit compares the partitions. With fix it adds what is missing: the input got more.
func (t internalTopic) fit(ctx context.Context, adm *kadm.Client, has int32, fix bool) error {
	switch {
	case !t.exact || has == t.partitions:
		return nil
	case has > t.partitions:
		return hinted("go on with the input that it belongs to; if what it holds may be lost, delete it",
			"%s %q has %d partitions, want %d: each belongs to one of the input", t.what, t.name, has, t.partitions)
	case !fix:
		return hinted("if the input got more partitions, add --fix-topics, which adds them here too: IDs that moved to another partition pass once more",
			"%s %q has %d partitions, want %d: each belongs to one of the input", t.what, t.name, has, t.partitions)
	}
	answers, err := adm.UpdatePartitions(ctx, int(t.partitions), t.name)
	if err == nil {
		err = answers.Error()
	}
	if errors.Is(err, kerr.InvalidPartitions) {
		err = nil // another instance may have been faster
	}
	var detail kadm.TopicDetail
	if err == nil {
		detail, err = awaitTopic(ctx, adm, t.name, t.partitions)
	}
	if err != nil {
		return fmt.Errorf("add partitions to %s %q, up to %d: %w", t.what, t.name, t.partitions, err)
	}
	if now := int32(len(detail.Partitions)); now != t.partitions {
		return t.fit(ctx, adm, now, fix)
	}
	if t.grown != nil {
		t.grown(has)
	}
	return nil
}

// create makes the topic and waits for its leaders. Another instance may be faster.
func (t internalTopic) create(ctx context.Context, adm *kadm.Client) (kadm.TopicDetail, error) {
	const brokerDefault = -1
	settings := maps.Clone(t.settings)
	if t.leastBytes > 0 {
		settings[maxMessageBytes] = strconv.Itoa(int(max(t.leastBytes, defaultMaxBytes)))
	}
	_, err := adm.CreateTopic(ctx, t.partitions, brokerDefault, pointers(settings), t.name)
	if errors.Is(err, kerr.InvalidConfig) {
		for _, name := range timeLimits {
			delete(settings, name) // an old broker has them not
		}
		_, err = adm.CreateTopic(ctx, t.partitions, brokerDefault, pointers(settings), t.name)
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return kadm.TopicDetail{}, hinted("check that we may create topics, or create it with these settings: "+t.list(settings),
			"create %s %q with %d partitions: %w", t.what, t.name, t.partitions, err)
	}
	detail, err := awaitTopic(ctx, adm, t.name, 1)
	if err != nil {
		return kadm.TopicDetail{}, fmt.Errorf("wait for the leaders of new topic %q: %w", t.name, err)
	}
	return detail, nil
}

const maxMessageBytes = "max.message.bytes"

// wrong are the settings that must become others. What a broker does not name, it
// does not have.
func (t internalTopic) wrong(found map[string]string) map[string]string {
	wrong := map[string]string{}
	for name, want := range t.settings {
		if is, named := found[name]; named && is != want {
			wrong[name] = want
		}
	}
	if n, err := strconv.ParseInt(found[maxMessageBytes], 10, 64); err == nil && n < int64(t.leastBytes) {
		wrong[maxMessageBytes] = strconv.Itoa(int(t.leastBytes))
	}
	return wrong
}

// correct changes settings, and waits until the brokers say so.
func (t internalTopic) correct(ctx context.Context, adm *kadm.Client, wrong map[string]string) error {
	changes := make([]kadm.AlterConfig, 0, len(wrong))
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		changes = append(changes, kadm.AlterConfig{Name: name, Value: kadm.StringPtr(wrong[name])})
	}
	answers, err := adm.AlterTopicConfigs(ctx, changes, t.name)
	if err == nil && len(answers) == 1 {
		err = answers[0].Err
	}
	if err != nil {
		return fmt.Errorf("correct the settings of %s %q: %w", t.what, t.name, err)
	}
	for {
		found, err := topicConfigs(ctx, adm, t.name)
		if err != nil {
			return err
		}
		if len(t.wrong(found[t.name])) == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the settings of %s %q: %w", t.what, t.name, err)
		}
	}
}

// differences names what is found and what is expected.
func (t internalTopic) differences(wrong, found map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		least := ""
		if name == maxMessageBytes {
			least = "at least "
		}
		texts = append(texts, fmt.Sprintf("%s is %s, want %s%s", name, found[name], least, wrong[name]))
	}
	return strings.Join(texts, "; ")
}

// list is settings as kafka-topics.sh takes them.
func (t internalTopic) list(settings map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		texts = append(texts, name+"="+settings[name])
	}
	return strings.Join(texts, ",")
}

func pointers(settings map[string]string) map[string]*string {
	p := make(map[string]*string, len(settings))
	for name, value := range settings {
		p[name] = &value
	}
	return p
}
