// Package awss3 stands in for the collector's awss3 exporter, whose module can't be had from every Go module proxy.
//
// It takes the settings that collector-config uses, under the names of the published exporter, and refuses all others.
// It writes the same objects under the same keys: one TracesData as OTLP/JSON an object. What decides whether anything
// is lost is not its own but what the published exporter is built on: the collector's exporter helper for the queue, its
// storage, batches and retries, and the transfer manager of the AWS SDK, which sends a large object in parts.
package awss3

import (
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/itchyny/timefmt-go"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configcompression"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Config is what stands below the exporter's name.
type Config struct {
	Timeout   exporterhelper.TimeoutConfig                             `mapstructure:",squash"`
	Queue     configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	Retry     configretry.BackOffConfig                                `mapstructure:"retry_on_failure"`
	Uploader  Uploader                                                 `mapstructure:"s3uploader"`
	Marshaler string                                                   `mapstructure:"marshaler"`
}

// Uploader says where objects go, and under which keys.
type Uploader struct {
	Region            string                 `mapstructure:"region"`
	Bucket            string                 `mapstructure:"s3_bucket"`
	Prefix            string                 `mapstructure:"s3_prefix"`
	PartitionFormat   string                 `mapstructure:"s3_partition_format"`
	PartitionTimezone string                 `mapstructure:"s3_partition_timezone"`
	Endpoint          string                 `mapstructure:"endpoint"`
	ForcePathStyle    bool                   `mapstructure:"s3_force_path_style"`
	Compression       configcompression.Type `mapstructure:"compression"`
	UniqueKeyFuncName string                 `mapstructure:"unique_key_func_name"`
}

func defaults() component.Config {
	return &Config{
		Timeout:   exporterhelper.NewDefaultTimeoutConfig(),
		Queue:     configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
		Retry:     configretry.NewDefaultBackOffConfig(),
		Marshaler: "otlp_json",
		Uploader: Uploader{
			Region:          "us-east-1",
			PartitionFormat: "year=%Y/month=%m/day=%d/hour=%H/minute=%M",
		},
	}
}

// Validate refuses what the published exporter refuses, and what this one can't do.
func (c *Config) Validate() error {
	up := c.Uploader
	var found []error
	if up.Region == "" {
		found = append(found, errors.New("region is required"))
	}
	if up.Bucket == "" && up.Endpoint == "" {
		found = append(found, errors.New("bucket or endpoint is required"))
	}
	if c.Marshaler != "otlp_json" {
		found = append(found, fmt.Errorf("marshaler %q: only otlp_json here", c.Marshaler))
	}
	if up.Compression.IsCompressed() && up.Compression != configcompression.TypeGzip {
		found = append(found, fmt.Errorf("compression %q: only gzip here", up.Compression))
	}
	if up.UniqueKeyFuncName != "uuidv7" {
		found = append(found, fmt.Errorf("unique_key_func_name %q: only uuidv7 here", up.UniqueKeyFuncName))
	}
	return errors.Join(found...)
}

// zone is that of the partitions: the collector's own unless one is named. As in the published exporter, a name that
// is none stops the collector at its start, and "validate" passes it.
func (u Uploader) zone() (*time.Location, error) {
	if u.PartitionTimezone == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(u.PartitionTimezone)
	if err != nil {
		return nil, fmt.Errorf("invalid S3 partition timezone: %w", err)
	}
	return zone, nil
}

// key is where an object written at this time goes. Slashes too many in prefix or partition are dropped.
func (u Uploader) key(at time.Time, unique string) string {
	key := path.Join(u.Prefix, timefmt.Format(at, u.PartitionFormat), "traces_"+unique+".json")
	if u.Compression.IsCompressed() {
		key += ".gz"
	}
	return key
}
