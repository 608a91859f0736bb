package awss3

import (
	"bytes"
	"compress/gzip"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// NewFactory makes exporters of the type "awss3".
func NewFactory() exporter.Factory {
	return exporter.NewFactory(
		component.MustNewType("awss3"),
		defaults,
		exporter.WithTraces(newTraces, component.StabilityLevelAlpha),
	)
}

type uploader struct {
	settings Uploader
	zone     *time.Location
	manager  *transfermanager.Client
	encoder  ptrace.JSONMarshaler
}

func newTraces(ctx context.Context, set exporter.Settings, given component.Config) (exporter.Traces, error) {
	cfg := given.(*Config)
	up := &uploader{settings: cfg.Uploader}
	return exporterhelper.NewTraces(ctx, set, given, up.push,
		exporterhelper.WithStart(up.start),
		exporterhelper.WithTimeout(cfg.Timeout),
		exporterhelper.WithRetry(cfg.Retry),
		exporterhelper.WithQueue(cfg.Queue),
	)
}

func (u *uploader) start(ctx context.Context, _ component.Host) error {
	zone, err := u.settings.zone()
	if err != nil {
		return err
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(u.settings.Region))
	if err != nil {
		return err
	}
	client := s3.NewFromConfig(loaded, func(options *s3.Options) {
		options.UsePathStyle = u.settings.ForcePathStyle
		if u.settings.Endpoint != "" {
			options.BaseEndpoint = aws.String(u.settings.Endpoint)
		}
	})
	u.zone, u.manager = zone, transfermanager.New(client)
	return nil
}

// push writes one object. An error is not permanent: the exporter helper tries again as it is told to.
func (u *uploader) push(ctx context.Context, traces ptrace.Traces) error {
	body, err := u.encoder.MarshalTraces(traces)
	if err != nil {
		return err
	}
	unique, err := uuid.NewV7()
	if err != nil {
		return err
	}
	input := &transfermanager.UploadObjectInput{
		Bucket:       aws.String(u.settings.Bucket),
		Key:          aws.String(u.settings.key(time.Now().In(u.zone), unique.String())),
		StorageClass: types.StorageClassStandard,
	}
	if u.settings.Compression.IsCompressed() {
		if body, err = gzipped(body); err != nil {
			return err
		}
		input.ContentEncoding = aws.String(string(u.settings.Compression))
	}
	input.Body = bytes.NewReader(body)
	_, err = u.manager.UploadObject(ctx, input)
	return err
}

func gzipped(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(plain); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
